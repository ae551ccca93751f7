#include "far/serve.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <map>
#include <tandem/detail/quiet.hpp>

#include "far/messages.hpp"
#include "link/channel_handle.hpp"
#include "support/pattern.hpp"

namespace tandem::test::far {
namespace {

using detail::quiet;

class test_session;

/// An operation on behalf of the remote one.
struct proxy_operation : operation {
  proxy_operation(std::shared_ptr<test_session> by, unpacker& from);

  const std::shared_ptr<test_session> of;  // outlives this operation
  std::uint64_t id = 0;
  std::string bytes_here;
};

class test_session : public std::enable_shared_from_this<test_session> {
 public:
  test_session(asio::ip::tcp::socket over, lanes_of_pair by)
      : over_(std::move(over)), by_(std::move(by)) {
    over_.set_option(asio::ip::tcp::no_delay(true));
  }

  awaitable<void> run() {
    const auto self = shared_from_this();
    try {
      for (;;) {
        std::uint32_t length = 0;
        co_await asio::async_read(over_, asio::buffer(&length, sizeof(length)),
                                  asio::use_awaitable);
        std::string frame(length, '\0');
        co_await asio::async_read(over_, asio::buffer(frame), asio::use_awaitable);
        const message_type what = static_cast<message_type>(frame.at(0));
        unpacker rest(std::string_view(frame).substr(1));
        if (what == message_type::up) {
          std::function<bool()> is_up = [this] { return all_up(*link_); };
          co_await poll_until(std::move(is_up), "lanes come up");
          send_limits();
        } else {
          handle(what, rest);
        }
      }
    } catch (const boost::system::system_error&) {
      // The test has disconnected; its channel ends, too.
    }
    end_.reset();
    if (acceptor_) acceptor_->close();
  }

  void complete_remote(proxy_operation& op) {
    const auto self = shared_from_this();
    packer message(message_type::done);
    message.put(op.id);
    put_code(message, op.result);
    message.put(op.failure != nullptr);
    if (op.failure) put_error(message, *op.failure);
    message.put(op.bytes).put(op.total_bytes).put(op.peer_signature);
    const bool has_bytes = op.what == operation::kind::recv && !op.result;
    message.put_text(has_bytes ? std::string_view(op.bytes_here).substr(0, op.bytes)
                               : std::string_view());
    send(std::move(message));
    pending_.erase(op.id);
    close_if_done();
  }
  void forget(proxy_operation& op) noexcept {
    const auto self = shared_from_this();
    pending_.erase(op.id);
  }

 private:
  void handle(message_type what, unpacker& rest) {
    switch (what) {
      case message_type::open:
        return open(take_settings(rest));
      case message_type::start:
        start(rest);
        return send(packer(message_type::acknowledged));
      case message_type::cancel: {
        const auto found = pending_.find(rest.take<std::uint64_t>());
        if (found != pending_.end()) end_->cancel(*found->second);
        return send(packer(message_type::acknowledged));
      }
      case message_type::fail:
        end_->fail(take_error(rest));
        return send(packer(message_type::acknowledged));
      case message_type::stats:
        return send(std::move(packer(message_type::stats).put(end_->stats())));
      case message_type::drop:
        end_.reset();
        acceptor_->close();
        return close_if_done();
      default:
        throw error(errc::protocol_violation, "an unexpected message type");
    }
  }

  void open(const settings& options) {
    const asio::any_io_executor executor = over_.get_executor();
    link_ = make_rig_link(executor, options, by_.there.size(), bounds);
    end_ = std::make_unique<transport::channel_handle<rails::link>>(link_);
    auto maker = std::make_shared<const lane_maker>(lane_maker{options, by_.open(executor)});
    const bool is_v6 = over_.local_endpoint().address().is_v6();
    acceptor_ = lane_acceptor::open(link_, std::move(maker),
                                    is_v6 ? asio::ip::address(asio::ip::address_v6::any())
                                          : asio::ip::address(asio::ip::address_v4::any()));
    send(std::move(packer(message_type::opened).put(acceptor_->at().port())));
  }
  void send_limits() {
    packer message(message_type::up);
    put_limits(message, end_->limits());
    send(std::move(message));
  }
  void start(unpacker& rest) {
    auto made = std::make_unique<proxy_operation>(shared_from_this(), rest);
    proxy_operation& op = *made;
    pending_.emplace(op.id, std::move(made));
    if (end_->start(op)) complete_remote(op);
  }
  /// The connection closes after the last answer.
  void close_if_done() {
    if (end_ || !pending_.empty() || is_writing_) return;
    error_code ignored;
    over_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  }

  void send(packer message) {
    outgoing_.push_back(message.take());
    if (is_writing_) return;
    is_writing_ = true;
    asio::co_spawn(over_.get_executor(), write_all(), asio::detached);
  }
  awaitable<void> write_all() {
    const auto self = shared_from_this();
    while (!outgoing_.empty()) {
      const std::string frame = std::move(outgoing_.front());
      outgoing_.pop_front();
      const auto [failure, n] = co_await asio::async_write(over_, asio::buffer(frame), quiet);
      if (failure) outgoing_.clear();
    }
    is_writing_ = false;
    close_if_done();
  }

  asio::ip::tcp::socket over_;
  const lanes_of_pair by_;
  std::shared_ptr<rails::link> link_;
  std::shared_ptr<lane_acceptor> acceptor_;
  std::unique_ptr<channel> end_;
  std::map<std::uint64_t, std::unique_ptr<proxy_operation>> pending_;
  std::deque<std::string> outgoing_;
  bool is_writing_ = false;
};

proxy_operation::proxy_operation(std::shared_ptr<test_session> by, unpacker& from)
    : of(std::move(by)), id(from.take<std::uint64_t>()) {
  what = from.take<kind>();
  flow = from.take<flow_id>();
  view.bytes = from.take<std::size_t>();
  view.kind = from.take<memory_kind>();
  signature = from.take<call_signature>();
  const auto left_ns = from.take<std::int64_t>();
  if (left_ns >= 0) deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(left_ns);
  bytes_here = from.text();
  // A view with a wrong length has a byte here, too.
  if (what == kind::recv && view.bytes <= longest_view_bytes) bytes_here.resize(view.bytes);
  if (bytes_here.empty()) bytes_here.resize(1);
  view.data = bytes_here.data();
  complete = [](operation& op) {
    auto& self = static_cast<proxy_operation&>(op);
    self.of->complete_remote(self);
  };
  destroy = [](operation& op) noexcept {
    auto& self = static_cast<proxy_operation&>(op);
    self.of->forget(self);
  };
}

}  // namespace

awaitable<void> serve(asio::ip::tcp::acceptor& acceptor, lanes_of_pair by) {
  for (;;) {
    asio::ip::tcp::socket over = co_await acceptor.async_accept(asio::use_awaitable);
    const auto made = std::make_shared<test_session>(std::move(over), by);
    asio::co_spawn(acceptor.get_executor(), made->run(), asio::detached);
  }
}

}  // namespace tandem::test::far
