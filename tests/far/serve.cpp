#include "far/serve.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <map>
#include <tandem/detail/quiet.hpp>

#include "far/words.hpp"
#include "protocol/channel_handle.hpp"
#include "support/pattern.hpp"

namespace tandem::test::far {
namespace {

using detail::quiet;

class guest;

/// An operation on behalf of the remote one.
struct stand_in : operation {
  stand_in(std::shared_ptr<guest> by, unpacker& from);

  const std::shared_ptr<guest> of;  // outlives this operation
  std::uint64_t id = 0;
  std::string bytes_here;
};

class guest : public std::enable_shared_from_this<guest> {
 public:
  guest(asio::ip::tcp::socket over, lanes_of_pair by) : over_(std::move(over)), by_(std::move(by)) {
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
        const word what = static_cast<word>(frame.at(0));
        unpacker rest(std::string_view(frame).substr(1));
        if (what == word::up) {
          std::function<bool()> is_up = [this] { return all_up(*link_); };
          co_await poll_until(std::move(is_up), "lanes come up");
          limits_up();
        } else {
          hear(what, rest);
        }
      }
    } catch (const boost::system::system_error&) {
      // The test has disconnected; its channel ends, too.
    }
    end_.reset();
    if (door_) door_->close();
  }

  void tell(stand_in& op) {
    const auto self = shared_from_this();
    packer words(word::done);
    words.put(op.id);
    put_code(words, op.result);
    words.put(op.failure != nullptr);
    if (op.failure) put_error(words, *op.failure);
    words.put(op.bytes).put(op.total_bytes).put(op.peer_signature);
    const bool has_bytes = op.what == operation::kind::recv && !op.result;
    words.put_text(has_bytes ? std::string_view(op.bytes_here).substr(0, op.bytes)
                             : std::string_view());
    say(std::move(words));
    pending_.erase(op.id);
    leave_if_done();
  }
  void forget(stand_in& op) noexcept {
    const auto self = shared_from_this();
    pending_.erase(op.id);
  }

 private:
  void hear(word what, unpacker& rest) {
    switch (what) {
      case word::open:
        return open(take_settings(rest));
      case word::start:
        start(rest);
        return say(packer(word::heard));
      case word::cancel: {
        const auto found = pending_.find(rest.take<std::uint64_t>());
        if (found != pending_.end()) end_->cancel(*found->second);
        return say(packer(word::heard));
      }
      case word::fail:
        end_->fail(take_error(rest));
        return say(packer(word::heard));
      case word::stats:
        return say(std::move(packer(word::stats).put(end_->stats())));
      case word::drop:
        end_.reset();
        door_->close();
        return leave_if_done();
      default:
        throw error(errc::protocol_violation, "no word that a test says");
    }
  }

  void open(const settings& options) {
    const asio::any_io_executor executor = over_.get_executor();
    link_ = make_rig_link(executor, options, by_.there.size(), bounds);
    end_ = std::make_unique<protocol::channel_handle<rails::link>>(link_);
    auto maker = std::make_shared<const lane_maker>(lane_maker{options, by_.open(executor)});
    const bool is_v6 = over_.local_endpoint().address().is_v6();
    door_ = lane_acceptor::open(link_, std::move(maker),
                                is_v6 ? asio::ip::address(asio::ip::address_v6::any())
                                      : asio::ip::address(asio::ip::address_v4::any()));
    say(std::move(packer(word::opened).put(door_->at().port())));
  }
  void limits_up() {
    packer words(word::up);
    put_limits(words, end_->limits());
    say(std::move(words));
  }
  void start(unpacker& rest) {
    auto made = std::make_unique<stand_in>(shared_from_this(), rest);
    stand_in& op = *made;
    pending_.emplace(op.id, std::move(made));
    if (end_->start(op)) tell(op);
  }
  /// The connection closes after the last answer.
  void leave_if_done() {
    if (end_ || !pending_.empty() || is_writing_) return;
    error_code ignored;
    over_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  }

  void say(packer words) {
    to_say_.push_back(words.take());
    if (is_writing_) return;
    is_writing_ = true;
    asio::co_spawn(over_.get_executor(), write_all(), asio::detached);
  }
  awaitable<void> write_all() {
    const auto self = shared_from_this();
    while (!to_say_.empty()) {
      const std::string frame = std::move(to_say_.front());
      to_say_.pop_front();
      const auto [failure, n] = co_await asio::async_write(over_, asio::buffer(frame), quiet);
      if (failure) to_say_.clear();
    }
    is_writing_ = false;
    leave_if_done();
  }

  asio::ip::tcp::socket over_;
  const lanes_of_pair by_;
  std::shared_ptr<rails::link> link_;
  std::shared_ptr<lane_acceptor> door_;
  std::unique_ptr<channel> end_;
  std::map<std::uint64_t, std::unique_ptr<stand_in>> pending_;
  std::deque<std::string> to_say_;
  bool is_writing_ = false;
};

stand_in::stand_in(std::shared_ptr<guest> by, unpacker& from)
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
    auto& self = static_cast<stand_in&>(op);
    self.of->tell(self);
  };
  destroy = [](operation& op) noexcept {
    auto& self = static_cast<stand_in&>(op);
    self.of->forget(self);
  };
}

}  // namespace

awaitable<void> serve(asio::ip::tcp::acceptor& door, lanes_of_pair by) {
  for (;;) {
    asio::ip::tcp::socket over = co_await door.async_accept(asio::use_awaitable);
    const auto made = std::make_shared<guest>(std::move(over), by);
    asio::co_spawn(door.get_executor(), made->run(), asio::detached);
  }
}

}  // namespace tandem::test::far
