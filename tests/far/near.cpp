#include "far/near.hpp"

#include <poll.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <deque>
#include <map>
#include <tandem/detail/pending.hpp>
#include <tandem/detail/quiet.hpp>
#include <utility>

#include "far/messages.hpp"
#include "link/channel_handle.hpp"

namespace tandem::test::far {
namespace {

using detail::quiet;

/// The connection to the other process, and the operations pending there.
class session : public std::enable_shared_from_this<session>, private pending_owner {
 public:
  explicit session(asio::ip::tcp::socket over)
      : pending_owner(over.get_executor()), over_(std::move(over)) {
    over_.set_option(asio::ip::tcp::no_delay(true));
    over_.non_blocking(true);
  }
  asio::any_io_executor get_executor() { return over_.get_executor(); }
  void run() { asio::co_spawn(over_.get_executor(), read_all(), asio::detached); }

  void send(packer message) {
    const std::string frame = message.take();
    for (std::size_t at = 0; at < frame.size();) {
      error_code failure;
      at += over_.write_some(asio::buffer(frame.data() + at, frame.size() - at), failure);
      if (failure == asio::error::would_block) {
        wait(POLLOUT);
      } else if (failure) {
        return;  // the reader reports it
      }
    }
  }
  /// Sends a request and waits until it is carried out, so that later actions here are ordered
  /// after it there. Empty: the far end is gone.
  std::string request(packer message) {
    send(std::move(message));
    for (;;) {
      std::optional<std::string> frame = next();
      if (!frame) {
        if (has_ended_) {
          ADD_FAILURE() << "the far end is gone";
          return {};
        }
        wait(POLLIN);
        fill();
      } else if (static_cast<message_type>(frame->front()) == message_type::done) {
        done_.push_back(std::move(*frame));
      } else {
        // Completions may have arrived with the answer; nobody else delivers them.
        while (std::optional<std::string> more = next()) done_.push_back(std::move(*more));
        asio::post(over_.get_executor(),
                   [self = shared_from_this()] { self->deliver_completions(); });
        return frame->substr(1);
      }
    }
  }

  /// The next message, if one has arrived.
  std::optional<std::string> poll_message() {
    fill();
    require(!has_ended_, "the far end is gone");
    return next();
  }

  void start(operation& op) {
    pending_.emplace(++last_, &op);
    const bool is_send = op.what == operation::kind::send;
    const bool has_bytes =
        is_send && op.view.kind == memory_kind::host && op.view.bytes <= longest_view_bytes;
    packer message(message_type::start);
    message.put(last_).put(op.what).put(op.flow).put(op.view.bytes).put(op.view.kind);
    message.put(op.signature);
    std::int64_t left_ns = -1;
    if (op.deadline != operation::time_point::max()) {
      left_ns = std::max<std::int64_t>((op.deadline - std::chrono::steady_clock::now()) / 1ns, 0);
    }
    message.put(left_ns);
    message.put_text(has_bytes
                         ? std::string_view(static_cast<const char*>(op.view.data), op.view.bytes)
                         : std::string_view());
    op.move_to(operation::phase::queued);
    request(std::move(message));
  }
  void cancel(const operation& op) {
    for (const auto& [id, each] : pending_) {
      if (each != &op) continue;
      request(std::move(packer(message_type::cancel).put(id)));
      return;
    }
  }

  /// Pending operations end by themselves, and cannot be cancelled any more.
  void drop() {
    for (const auto& [id, op] : pending_) op->move_to(operation::phase::done);
    send(packer(message_type::drop));
  }

 private:
  void abandon() noexcept override {
    const auto self = weak_from_this().lock();
    for (const auto& [id, op] : std::exchange(pending_, {})) {
      if (op->destroy != nullptr) op->destroy(*op);
    }
  }
  void wait(short what) {
    pollfd ready{over_.native_handle(), what, 0};
    require(::poll(&ready, 1, 20'000) == 1, "the far end does not answer");
  }
  void fill() {
    std::array<char, 65536> block;
    error_code failure;
    for (;;) {
      const std::size_t n = over_.read_some(asio::buffer(block), failure);
      has_ended_ = failure && failure != asio::error::would_block;
      if (failure) return;
      received_.append(block.data(), n);
    }
  }
  std::optional<std::string> next() {
    std::uint32_t length = 0;
    if (received_.size() - consumed_ < sizeof(length)) return {};
    std::memcpy(&length, received_.data() + consumed_, sizeof(length));
    if (received_.size() - consumed_ < sizeof(length) + length) return {};
    std::string frame = received_.substr(consumed_ + sizeof(length), length);
    consumed_ += sizeof(length) + length;
    if (consumed_ == received_.size()) received_.clear();
    if (received_.empty()) consumed_ = 0;
    return frame;
  }

  awaitable<void> read_all() {
    const auto self = shared_from_this();
    while (!has_ended_) {
      const auto [failure] = co_await over_.async_wait(asio::socket_base::wait_read, quiet);
      if (failure) co_return;
      fill();
      while (std::optional<std::string> frame = next()) done_.push_back(std::move(*frame));
      deliver_completions();
    }
  }
  void deliver_completions() {
    const auto self = shared_from_this();
    while (!done_.empty()) {
      const std::string frame = std::move(done_.front());
      done_.pop_front();
      complete_operation(unpacker(std::string_view(frame).substr(1)));
    }
  }
  void complete_operation(unpacker from) {
    const auto found = pending_.find(from.take<std::uint64_t>());
    require(found != pending_.end(), "the far end completes an unknown operation");
    operation& op = *found->second;
    pending_.erase(found);
    op.result = take_code(from);
    if (from.take<bool>()) op.failure = std::make_shared<const error>(take_error(from));
    op.bytes = from.take<std::size_t>();
    op.total_bytes = from.take<std::size_t>();
    op.peer_signature = from.take<call_signature>();
    const std::string_view bytes = from.text();
    if (!bytes.empty()) std::memcpy(op.view.data, bytes.data(), bytes.size());
    op.move_to(operation::phase::done);
    op.complete(op);
  }

  asio::ip::tcp::socket over_;
  std::map<std::uint64_t, operation*> pending_;
  std::uint64_t last_ = 0;
  std::string received_;
  std::size_t consumed_ = 0;
  bool has_ended_ = false;
  std::deque<std::string> done_;
};

class far_end final : public channel {
 public:
  far_end(std::shared_ptr<session> over, channel_limits limits)
      : over_(std::move(over)), limits_(std::move(limits)) {}
  ~far_end() override { over_->drop(); }
  asio::any_io_executor get_executor() const noexcept override { return over_->get_executor(); }
  const channel_limits& limits() const noexcept override { return limits_; }
  channel_stats stats() const noexcept override {
    const std::string answer = over_->request(packer(message_type::stats));
    return answer.empty() ? channel_stats{} : unpacker(answer).take<channel_stats>();
  }
  void fail(const error& reason) noexcept override {
    packer message(message_type::fail);
    put_error(message, reason);
    over_->request(std::move(message));
  }
  bool start(operation& op) override {
    over_->start(op);
    return false;
  }
  void cancel(operation& op) noexcept override { over_->cancel(op); }

 private:
  const std::shared_ptr<session> over_;
  const channel_limits limits_;
};

}  // namespace

awaitable<channel_pair> connect(asio::ip::tcp::endpoint control, lanes_of_pair by,
                                settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::ip::tcp::socket over(executor);
  co_await over.async_connect(control, asio::use_awaitable);
  const auto there = std::make_shared<session>(std::move(over));
  packer message(message_type::open);
  put_settings(message, options);
  const std::string opened = there->request(std::move(message));
  const auto port = unpacker(opened).take<std::uint16_t>();

  const std::shared_ptr<rails::link> link =
      make_rig_link(executor, options, by.there.size(), bounds);
  auto maker = std::make_shared<const lane_maker>(lane_maker{options, by.open(executor)});
  connect_lanes(*link, std::move(maker), [where = by.there, port](std::uint16_t lane) {
    return asio::ip::tcp::endpoint(where.at(lane), port);
  });
  std::function<bool()> is_up = [&link] { return all_up(*link); };
  co_await poll_until(std::move(is_up), "lanes come up");
  // The far end may still wait for lanes that need progress here: do not wait for it.
  there->send(packer(message_type::up));
  std::optional<std::string> up;
  std::function<bool()> is_up_there = [&] { return (up = there->poll_message()).has_value(); };
  co_await poll_until(std::move(is_up_there), "lanes come up at the far end");
  unpacker limits(std::string_view(*up).substr(1));
  there->run();
  channel_pair pair;
  pair.first = std::make_unique<transport::channel_handle<rails::link>>(link);
  pair.second = std::make_unique<far_end>(there, take_limits(limits));
  co_return pair;
}

}  // namespace tandem::test::far
