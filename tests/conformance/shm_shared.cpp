// The channel suite with messages in shared buffers, which the other end maps and copies from.

#include <unistd.h>

#include <boost/asio/use_awaitable.hpp>

#include "conformance/shm_peer.hpp"
#include "support/other_views.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 20;

/// Replaces a user's host view. A view that no test fills is not replaced.
class shared_view final : public other_view {
 public:
  shared_view(std::size_t bytes, std::shared_ptr<arena> from)
      : bytes_(bytes), from_(std::move(from)) {
    if (from_) part_ = from_->take(bytes);
    if (part_ == nullptr) own_ = shm::shared_buffer(bytes);
  }
  ~shared_view() override {
    if (part_ != nullptr) from_->give_back(part_);
  }
  mutable_view get() const override { return {bytes(), bytes_}; }
  void* bytes() const override { return part_ != nullptr ? part_ : own_.data(); }

 private:
  const std::size_t bytes_;
  const std::shared_ptr<arena> from_;
  std::byte* part_ = nullptr;
  shm::shared_buffer own_{0};
};

std::unique_ptr<channel> in_shared_buffers(std::unique_ptr<channel> below,
                                           const std::shared_ptr<arena>& from) {
  const auto make = [from](const mutable_view& user) -> std::unique_ptr<other_view> {
    if (user.kind != memory_kind::host || user.bytes > longest_view_bytes) return as_it_is(user);
    return std::make_unique<shared_view>(user.bytes, from);
  };
  return with_other_views(std::move(below), make);
}

std::shared_ptr<arena> shared_arena() {
  const auto all = std::make_shared<const shm::shared_buffer>(arena_bytes);
  return std::make_shared<arena>(std::shared_ptr<std::byte>(all, all->data()), arena_bytes);
}

/// The minimum ring: only short messages go through it.
awaitable<channel_pair> connect_min_ring(settings options) {
  options.shm_single_copy = single_copy::off;
  options.shm_ring_bytes = 64 * 1024;
  return connect_shm(std::move(options));
}

/// Each end has one shared buffer that all its views are parts of.
awaitable<channel_pair> connect_one_buffer(settings options) {
  channel_pair below = co_await connect_min_ring(std::move(options));
  co_return channel_pair{in_shared_buffers(std::move(below.first), shared_arena()),
                         in_shared_buffers(std::move(below.second), shared_arena())};
}

/// Each view is a shared buffer, so that buffers come and go, more than a peer maps.
awaitable<channel_pair> connect_buffers(settings options) {
  channel_pair below = co_await connect_min_ring(std::move(options));
  co_return channel_pair{in_shared_buffers(std::move(below.first), nullptr),
                         in_shared_buffers(std::move(below.second), nullptr)};
}

INSTANTIATE_TEST_SUITE_P(shm_shared, channel_test,
                         testing::Values(channel_case{"shm_shared_buffer", connect_one_buffer},
                                         channel_case{"shm_shared_buffers", connect_buffers,
                                                      drive::by_asio, true, false},
                                         channel_case{"shm_shared_buffer_polled",
                                                      connect_one_buffer, drive::by_spinning}),
                         case_name);

/// To a peer that has mapped the buffer, none of its bytes goes through the ring, and the send
/// completes when the peer has read it.
awaitable<void> bypasses_the_ring() {
  settings options;
  options.shm_single_copy = single_copy::off;
  hostile_memory pair = co_await connect_hostile_memory(options);
  shm::control_block& sender_control = pair.peer.shared.control(1);
  const shm::shared_buffer message(std::size_t{1} << 20);
  background sender(pair.end->get_executor(), pair.end->send(1, message.view()));
  co_await turns(2);
  EXPECT_EQ(sender_control.offers.load(), 0U) << "the message is not accepted yet";
  pair.control().mapped[0].store(1);  // as for its first offer
  shm::record& accept = pair.record_at(0);
  accept.type = static_cast<std::uint8_t>(protocol::frame_type::accept);
  accept.how = static_cast<std::uint8_t>(shm::transfer_method::inline_data);
  accept.flow = 1;
  accept.message_id = 1 << 16;
  pair.publish(0);
  pair.ring_doorbell();
  const auto has_offered = [&sender_control] { return sender_control.offers.load() != 0; };
  co_await until(has_offered, "the offer of its buffer");
  EXPECT_EQ(sender_control.offered[0].process.load(), static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(sender_control.offered[0].bytes.load(), message.size());

  const shm::ring_memory ring = pair.peer.shared.ring(1);
  std::uint64_t reported_bytes = 0, records = 0;
  while (reported_bytes < message.size()) {
    const std::size_t at = (1 + records) * shm::record_bytes;  // after the announcement
    const auto& one = *reinterpret_cast<const shm::record*>(ring.data + at);
    require(one.ready.load() == shm::record::is_ready, "a record less than the message needs");
    EXPECT_EQ(one.how, static_cast<std::uint8_t>(shm::transfer_method::mapped));
    EXPECT_EQ(protocol::take<std::uint64_t>(one.inline_data), reported_bytes);
    reported_bytes += one.payload_bytes;
    ++records;
  }
  EXPECT_EQ(reported_bytes, message.size());
  EXPECT_FALSE(sender.is_over());
  pair.control().read.store(records);
  pair.ring_doorbell();
  co_await sender.result();
}

TEST(shm_shared, bypasses_the_ring) {
  run_test(bypasses_the_ring());
}

/// An eager message of 32 KiB bypasses the ring, too; a shorter one does not, and neither does one
/// whose view is rewritten right after the send.
awaitable<void> eager_messages_use_either_path() {
  constexpr std::size_t min_reference_bytes = 32 * 1024, piece = 16 * 1024;
  settings options;
  options.shm_single_copy = single_copy::off;
  hostile_memory pair = co_await connect_hostile_memory(options);
  const shm::ring_memory ring = pair.peer.shared.ring(1);
  const auto how_at = [ring](std::size_t at) {
    const auto& one = *reinterpret_cast<const shm::record*>(ring.data + at);
    require(one.ready.load() == shm::record::is_ready, "no record where one should be");
    return static_cast<shm::transfer_method>(one.how);
  };
  const shm::shared_buffer message(min_reference_bytes);
  pair.control().mapped[0].store(1);  // as for its first offer
  background sender(pair.end->get_executor(), pair.end->send(1, message.view()));
  co_await turns(2);
  EXPECT_EQ(how_at(0), shm::transfer_method::mapped);
  EXPECT_FALSE(sender.is_over());
  pair.control().read.store(1);
  pair.ring_doorbell();
  co_await sender.result();

  co_await pair.end->send(1, message.view().part(0, min_reference_bytes - 1));
  std::size_t at = shm::record_bytes;
  EXPECT_EQ(how_at(at), shm::transfer_method::first_piece);
  at += 2 * (shm::record_bytes + piece);  // the last piece, with its padding

  operation copied;
  copied.view = message.view();
  copied.flow = 1;
  copied.rewritten = true;
  EXPECT_TRUE(pair.end->start(copied)) << "it is in the ring";
  EXPECT_EQ(how_at(at), shm::transfer_method::first_piece);
}

TEST(shm_shared, eager_messages_use_either_path) {
  run_test(eager_messages_use_either_path());
}

}  // namespace
}  // namespace tandem::test
