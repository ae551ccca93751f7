#include "sealed/stream.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "sealed/incoming.hpp"
#include "sealed/outgoing.hpp"
#include "support/pattern.hpp"
#include "support/sealed_parts.hpp"

namespace tandem::sealed {
namespace {

using test::bytes;
using test::first_wrong;
using test::pattern;
using test::some_key;

bytes sealed_in_parts(std::span<const iovec> parts) {
  outgoing out(some_key());
  bytes wire;
  for (cursor from(parts); from.left_bytes() > 0;) {
    out.take(from);
    const auto some = out.unsent();
    wire.insert(wire.end(), some.begin(), some.end());
    out.sent(some.size());
  }
  return wire;
}

/// Delivers the wire in fragments and decrypts into random parts of a buffer.
bytes opened(incoming& in, std::span<const std::byte> wire, std::mt19937_64& random,
             std::size_t longest_piece, std::size_t max_space) {
  bytes text, into(max_space);
  for (;;) {
    const std::span<std::byte> space(into.data(), 1 + random() % max_space);
    const auto parts = test::in_parts(space, random);
    cursor to(parts);
    in.open(to);
    text.insert(text.end(), into.begin(),
                into.begin() + static_cast<std::ptrdiff_t>(to.done_bytes()));
    if (in.is_broken()) return text;
    if (in.holds_more()) continue;
    if (wire.empty()) return text;
    const std::span<std::byte> free = in.space();
    EXPECT_FALSE(free.empty());
    const std::size_t n = std::min({free.size(), wire.size(), 1 + random() % longest_piece});
    std::copy_n(wire.begin(), n, free.begin());
    in.received(n);
    wire = wire.subspan(n);
  }
}

TEST(sealed_bytes, arrive_in_any_fragmentation) {
  std::mt19937_64 random(2);
  const bytes text = pattern(200'000, 3);
  for (const std::size_t longest_part : {std::size_t{64}, std::size_t{9000}, text.size()}) {
    const auto parts = test::in_parts(text, random, longest_part);
    const bytes wire = sealed_in_parts(parts);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{5000}, wire.size()}) {
      for (const std::size_t space : {std::size_t{10}, std::size_t{9000}, text.size()}) {
        incoming in(some_key());
        EXPECT_EQ(opened(in, wire, random, piece, space), text);
        EXPECT_FALSE(in.is_broken());
      }
    }
  }
}

/// Headers and payloads are decrypted directly to their targets, for which a long payload has its
/// own records.
TEST(sealed_bytes, long_part_has_its_own_records) {
  bytes memory(400'000);
  const auto lengths = [&memory](std::initializer_list<std::size_t> parts) {
    std::vector<iovec> all;
    for (const std::size_t n : parts) all.push_back({memory.data(), n});
    std::vector<std::size_t> records;
    for (cursor from(all); from.left_bytes() > 0;) {
      const std::size_t n = outgoing::next_text(from);
      records.push_back(n);
      for (std::size_t left = n; left > 0;) left -= from.step(left).size();
    }
    return records;
  };
  using list = std::vector<std::size_t>;
  EXPECT_EQ(lengths({96, 262'144, 96, 100}), (list{96, 65536, 65536, 65536, 65536, 196}));
  EXPECT_EQ(lengths({96, 70'000, 64, 8192}), (list{96, 65536, 4464 + 64, 8192}));
  EXPECT_EQ(lengths({96, 8191, 96, 8191}), (list{2 * 96 + 2 * 8191}));
  EXPECT_EQ(lengths(std::initializer_list<std::size_t>{8000, 8000, 8000, 8000, 8000, 8000, 8000,
                                                       8000, 8000}),
            (list{65536, 72'000 - 65536}));
}

TEST(sealed_bytes, partial_record_gives_nothing) {
  const bytes text = pattern(1000, 1);
  const iovec all{const_cast<std::byte*>(text.data()), text.size()};
  const bytes wire = sealed_in_parts(std::span(&all, 1));
  incoming in(some_key());
  bytes into(2000, std::byte{0x55});
  const iovec space{into.data(), into.size()};
  for (std::size_t i = 0; i < wire.size(); ++i) {
    cursor to(std::span(&space, 1));
    in.open(to);
    EXPECT_EQ(to.done_bytes(), 0u);
    EXPECT_FALSE(in.holds_more());
    EXPECT_EQ(into, bytes(2000, std::byte{0x55}));
    in.space()[0] = wire[i];
    in.received(1);
  }
  EXPECT_TRUE(in.holds_more());
  cursor to(std::span(&space, 1));
  in.open(to);
  EXPECT_EQ(to.done_bytes(), 1000u);
}

TEST(sealed_bytes, hostile_bytes_fail_at_once) {
  struct hostile {
    bytes wire;
    std::string error_text;
  };
  const bytes zeros(4), many{std::byte{1}, std::byte{0}, std::byte{1}, std::byte{0}};
  bytes forged(120, std::byte{9});
  forged[0] = std::byte{100};
  forged[1] = forged[2] = forged[3] = std::byte{0};
  for (const hostile& one :
       {hostile{zeros, "a sealed record of 0 bytes"},
        hostile{many, "a sealed record of 65537 bytes"}, hostile{forged, "fails authentication"}}) {
    std::mt19937_64 random(1);
    incoming in(some_key());
    EXPECT_EQ(opened(in, one.wire, random, 7, 500), bytes());
    EXPECT_TRUE(in.is_broken());
    EXPECT_NE(in.why().find(one.error_text), std::string::npos) << in.why();
    EXPECT_FALSE(in.holds_more());
  }
}

/// Records opened before the damage are still delivered, and nothing more.
TEST(sealed_bytes, flipped_bit_ends_stream_before_its_record) {
  const bytes text = pattern(300, 1);
  std::vector<iovec> parts;
  outgoing out(some_key());
  bytes wire;
  for (int i = 0; i < 3; ++i) {
    const iovec part{const_cast<std::byte*>(text.data()) + 100 * i, 100};
    cursor from(std::span(&part, 1));
    out.take(from);
    wire.insert(wire.end(), out.unsent().begin(), out.unsent().end());
    out.sent(out.unsent().size());
  }
  std::mt19937_64 random(1);
  for (std::size_t bit = 0; bit < 8 * wire.size(); ++bit) {
    bytes changed = wire;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    incoming in(some_key());
    const bytes got = opened(in, changed, random, wire.size(), 400);
    const std::size_t whole = bit / 8 / (100 + overhead_bytes) * 100;
    EXPECT_EQ(got, bytes(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(whole))) << bit;
  }
}

class sealed_stream : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_.data()), 0);
    const int small = 1;  // the kernel uses its minimum
    ASSERT_EQ(::setsockopt(ends_[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    const secret there = some_key(), back = some_key("another key of thirty-two bytes!");
    from_.emplace(ends_[0], GetParam() ? keys(there, back) : keys());
    to_.emplace(ends_[1], GetParam() ? keys(back, there) : keys());
  }
  void TearDown() override {
    for (const int end : ends_) ::close(end);
  }
  ssize_t receive(std::span<std::byte> into) {
    const iovec space{into.data(), into.size()};
    return to_->receive(std::span(&space, 1));
  }
  ssize_t send(std::span<const std::byte> text) {
    const iovec part{const_cast<std::byte*>(text.data()), text.size()};
    return from_->send(std::span(&part, 1));
  }

  std::array<int, 2> ends_{};
  std::optional<stream> from_, to_;
};

/// Like sendmsg and recvmsg, in both directions of a socket that is repeatedly full.
TEST_P(sealed_stream, delivers_accepted_bytes) {
  const bytes text = pattern(300'000, 4);
  bytes got;
  bytes into(40'000);
  std::size_t taken = 0;
  int full = 0;
  while (got.size() < text.size()) {
    while (taken < text.size()) {
      const ssize_t n = send(std::span(text).subspan(taken));
      if (n > 0) {
        taken += static_cast<std::size_t>(n);
        continue;
      }
      EXPECT_EQ(errno, EAGAIN);
      ++full;
      break;
    }
    from_->flush();
    const ssize_t here = receive(into);
    ASSERT_TRUE(here > 0 || errno == EAGAIN);
    if (here > 0) got.insert(got.end(), into.begin(), into.begin() + here);
  }
  EXPECT_GT(full, 0);
  EXPECT_EQ(taken, text.size());
  EXPECT_EQ(got, text);
  EXPECT_TRUE(from_->flush());
  EXPECT_FALSE(to_->holds_more());
  EXPECT_EQ(from_->sent_bytes(), to_->received_bytes());
  EXPECT_GE(to_->received_bytes(), text.size());
}

TEST_P(sealed_stream, ends_with_the_socket) {
  ASSERT_EQ(send(pattern(10, 1)), 10);
  ::shutdown(ends_[0], SHUT_WR);
  bytes into(100);
  EXPECT_EQ(receive(into), 10);
  EXPECT_EQ(receive(into), 0);
  EXPECT_EQ(receive(into), 0);
  EXPECT_EQ(to_->describe(ECONNRESET), "Connection reset by peer");
}

INSTANTIATE_TEST_SUITE_P(both, sealed_stream, testing::Bool(),
                         [](const auto& which) { return which.param ? "sealed" : "clear"; });

using sealed_stream_only = sealed_stream;

/// Accepted bytes are sent: those that the socket buffer cannot hold follow later without another
/// send.
TEST_P(sealed_stream_only, flushes_pending_records) {
  const bytes text = pattern(100'000, 5);
  ASSERT_EQ(send(text), 100'000);
  EXPECT_TRUE(from_->has_unsent());
  EXPECT_FALSE(from_->flush());
  bytes got, into(200'000);
  for (int i = 0; i < 1000 && from_->has_unsent(); ++i) {
    const ssize_t n = receive(into);
    if (n > 0) got.insert(got.end(), into.begin(), into.begin() + n);
    from_->flush();
  }
  EXPECT_FALSE(from_->has_unsent());
  const ssize_t n = receive(into);
  if (n > 0) got.insert(got.end(), into.begin(), into.begin() + n);
  EXPECT_EQ(got, text);
}

TEST_P(sealed_stream_only, final_bytes_follow_pending_records) {
  const bytes text = pattern(100'000, 6);
  ASSERT_EQ(send(text), 100'000);
  ASSERT_TRUE(from_->has_unsent());
  bytes words = pattern(400'000, 7);
  from_->seal_last(words);
  EXPECT_FALSE(from_->has_unsent());
  bytes got, into(90'000);
  for (std::size_t done = 0; got.size() < 500'000;) {
    const ssize_t n =
        ::send(ends_[0], words.data() + done, words.size() - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) done += static_cast<std::size_t>(n);
    const ssize_t here = receive(into);
    ASSERT_TRUE(here > 0 || errno == EAGAIN);
    if (here > 0) got.insert(got.end(), into.begin(), into.begin() + here);
  }
  EXPECT_EQ(first_wrong(std::span(got).first(100'000), 6), std::nullopt);
  EXPECT_EQ(first_wrong(std::span(got).subspan(100'000), 7), std::nullopt);
}

TEST_P(sealed_stream_only, buffers_more_than_the_socket_accepts) {
  ASSERT_EQ(send(pattern(1000, 1)), 1000);
  bytes into(10);
  EXPECT_EQ(receive(into), 10);
  EXPECT_TRUE(to_->holds_more());
  bytes rest(2000);
  EXPECT_EQ(receive(rest), 990);
  EXPECT_FALSE(to_->holds_more());
  EXPECT_EQ(receive(rest), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_P(sealed_stream_only, shows_bytes_of_unauthenticated_peer) {
  ASSERT_EQ(send(pattern(50, 1)), 50);
  const bytes forged(200, std::byte{1});
  ASSERT_EQ(::send(ends_[0], forged.data(), forged.size(), 0), 200);
  bytes into(1000);
  EXPECT_EQ(receive(into), 50);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(to_->holds_more());
    EXPECT_EQ(receive(into), -1);
    EXPECT_EQ(errno, EBADMSG);
    EXPECT_EQ(to_->describe(EBADMSG), "a sealed record of 16843009 bytes");
  }
}

INSTANTIATE_TEST_SUITE_P(only, sealed_stream_only, testing::Values(true),
                         [](const auto&) { return "sealed"; });

}  // namespace
}  // namespace tandem::sealed
