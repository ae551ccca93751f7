// Views that a peer's NIC may write to: lent with an accept, taken back when the message is there
// or the peer says that it writes no more, and what no correct peer says about them.

#include <boost/asio/error.hpp>

#include "support/session_pair.hpp"

namespace tandem::test {
namespace {

using protocol::frame;
using protocol::frame_type;
using kind = operation::kind;

constexpr protocol::limits tiny{24, 64, 512, 2, 16};

/// Lends every view over so many lanes.
class generous final : public protocol::remote_write_grants {
 public:
  explicit generous(std::uint16_t lanes) : lanes_(lanes) {}
  void grant_writes(operation& op, std::uint64_t, std::vector<protocol::grant>& grants) override {
    for (std::uint16_t i = 0; i < lanes_; ++i) {
      grants.push_back({reinterpret_cast<std::uint64_t>(op.view.data), 70u + i, 5, i});
    }
    if (lanes_ > 0) ++op.pins;
    op.registered = true;
    granted = lanes_ > 0;
  }
  bool is_granted(const operation&) const noexcept override { return granted; }
  void grants_ended(const operation&) noexcept override { granted = false; }
  void view_released(operation&) noexcept override { ++settlements; }

  bool granted = false;
  int settlements = 0;

 private:
  const std::uint16_t lanes_;
};

/// A message of two chunks from end 0, announced to a receive of end 1.
class session_lent : public testing::Test {
 protected:
  session_lent() {
    pair_.end(1).set_remote_write_grants(&remote_write_grants_);
    pair_.start(1, recv_);
    pair_.start(0, send_);
    announce_ = pair_.write(0)->header;
    EXPECT_EQ(announce_.type, frame_type::announce);
    EXPECT_TRUE(pair_.deliver(0));
  }
  /// The ways, and the accept.
  void accept() {
    for (int i = 0; i < 3; ++i) {
      pair_.write(1);
      EXPECT_TRUE(pair_.deliver(1)) << pair_.end(0).violation();
    }
  }
  /// The next chunk, written in place by a NIC.
  frame place() {
    protocol::outgoing_frame out;
    EXPECT_TRUE(pair_.end(0).next(out));
    EXPECT_EQ(out.header.type, frame_type::data);
    const protocol::grant* const way = pair_.end(0).grant_for(out.header, 1, 5);
    if (way == nullptr) {
      ADD_FAILURE() << "no way";
      return out.header;
    }
    EXPECT_EQ(way->key, 71u);
    auto* const to = reinterpret_cast<char*>(way->address + out.header.offset);
    std::memcpy(to, out.payload.data, out.payload.bytes);
    out.header.flags |= protocol::direct_placement;
    pair_.end(0).placed(out.header);
    placed_.push_back(out);
    return out.header;
  }
  bool arrive(const frame& chunk) {
    protocol::incoming_payload where;
    if (!pair_.end(1).begin(chunk, where)) return false;
    pair_.end(1).end(where);
    return true;
  }
  bool says(int side, frame_type type, const frame& like) {
    frame f;
    f.type = type;
    f.flow = like.flow;
    f.message_id = like.message_id;
    return pair_.end(side).handle(f);
  }
  /// What an end says next.
  frame_type said_by(int side) {
    const packet* const next = pair_.write(side);
    return next == nullptr ? frame_type::credit : next->header.type;
  }

  session_pair pair_{tiny};
  generous remote_write_grants_{2};
  scripted send_{kind::send, 1, std::string(100, 'm')};
  scripted recv_{kind::recv, 1, std::string(120, '?')};
  frame announce_;
  std::vector<protocol::outgoing_frame> placed_;
};

TEST_F(session_lent, sends_grants_before_accept) {
  EXPECT_EQ(said_by(1), frame_type::grant);
  EXPECT_EQ(said_by(1), frame_type::grant);
  EXPECT_EQ(said_by(1), frame_type::accept);
}

TEST_F(session_lent, ends_with_the_last_chunk) {
  accept();
  EXPECT_EQ(pair_.end(0).grant_for(announce_, 1, 6), nullptr) << "of another epoch";
  EXPECT_EQ(pair_.end(0).grant_for(announce_, 2, 5), nullptr) << "of another lane";
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(arrive(place())) << pair_.end(1).violation();
  EXPECT_TRUE(recv_.is_over());
  EXPECT_EQ(recv_.received(), send_.bytes_of);
  EXPECT_EQ(remote_write_grants_.settlements, 1);
  EXPECT_FALSE(remote_write_grants_.granted);
}

TEST_F(session_lent, holds_cancelled_receive_until_revoked) {
  accept();
  const frame first = place();
  pair_.end(1).cancel(recv_);
  EXPECT_EQ(pair_.end(1).pop_done(), nullptr) << "told while it may be written";
  EXPECT_EQ(said_by(1), frame_type::revoke);
  EXPECT_TRUE(pair_.deliver(1));
  EXPECT_EQ(pair_.end(0).grant_for(first, 1, 5), nullptr);
  protocol::outgoing_frame rest;
  EXPECT_TRUE(pair_.end(0).next(rest));
  EXPECT_EQ(rest.header.type, frame_type::data) << "nothing is said while a chunk is on its way";
  EXPECT_TRUE(arrive(first));
  pair_.end(0).sent(placed_[0]);
  EXPECT_EQ(said_by(0), frame_type::revoked);
  EXPECT_TRUE(pair_.end(1).handle(pair_.on_wire[0].back().header));
  EXPECT_EQ(pair_.end(1).pop_done(), &recv_);
  EXPECT_EQ(recv_.result, boost::asio::error::operation_aborted);
  EXPECT_EQ(remote_write_grants_.settlements, 1);
  EXPECT_FALSE(arrive(first)) << "in place, after it was taken back";
}

TEST_F(session_lent, displaced_chunk_is_no_longer_in_flight) {
  accept();
  const frame first = place();
  pair_.end(1).cancel(recv_);
  EXPECT_EQ(said_by(1), frame_type::revoke);
  EXPECT_TRUE(pair_.deliver(1));
  pair_.end(0).placement_ended(first);
  EXPECT_EQ(said_by(0), frame_type::revoked);
}

TEST_F(session_lent, last_chunk_ends_the_grant) {
  accept();
  const frame first = place(), second = place();
  pair_.end(1).cancel(recv_);
  EXPECT_TRUE(arrive(first));
  EXPECT_EQ(pair_.end(1).pop_done(), nullptr);
  EXPECT_TRUE(arrive(second));
  EXPECT_EQ(pair_.end(1).pop_done(), &recv_);
  EXPECT_TRUE(says(1, frame_type::revoked, announce_)) << "too late, and harmless";
}

TEST_F(session_lent, withdrawal_ends_the_grant) {
  accept();
  pair_.end(1).cancel(recv_);
  EXPECT_TRUE(says(1, frame_type::withdraw, announce_));
  EXPECT_EQ(pair_.end(1).pop_done(), &recv_);
}

TEST_F(session_lent, holds_failed_operation_until_lanes_are_quiet) {
  accept();
  pair_.end(1).fail(error(errc::channel_closed, "closed"));
  EXPECT_EQ(pair_.end(1).pop_done(), nullptr);
  pair_.end(1).grants_ended(recv_);
  EXPECT_EQ(pair_.end(1).pop_done(), &recv_);
  EXPECT_EQ(recv_.result, errc::channel_closed);
}

TEST_F(session_lent, holds_send_while_nic_reads) {
  accept();
  ++send_.pins;
  pair_.end(0).fail(error(errc::channel_closed, "closed"));
  EXPECT_EQ(pair_.end(0).pop_done(), nullptr);
  pair_.end(0).unpin(send_);
  EXPECT_EQ(pair_.end(0).pop_done(), &send_);
}

TEST_F(session_lent, refuses_protocol_violations) {
  frame way = announce_;
  way.type = frame_type::grant;
  way.flags = 7;
  EXPECT_FALSE(says(0, frame_type::revoke, announce_)) << "not accepted yet";
  EXPECT_TRUE(pair_.end(0).handle(way));
  EXPECT_FALSE(pair_.end(0).handle(way)) << "twice for one lane";
  way.message_id += std::uint64_t{1} << 16;
  EXPECT_FALSE(pair_.end(0).handle(way)) << "of a message that never was";
  accept();
  way = announce_;
  way.type = frame_type::grant;
  way.flags = 8;
  EXPECT_FALSE(pair_.end(0).handle(way)) << "after the accept";
  EXPECT_FALSE(says(1, frame_type::revoked, announce_)) << "nobody asked";
  EXPECT_TRUE(says(0, frame_type::revoke, announce_));
  EXPECT_FALSE(says(0, frame_type::revoke, announce_)) << "twice";
}

TEST(session, refuses_placement_without_grant) {
  session_pair pair(tiny);
  scripted send(kind::send, 1, std::string(100, 'm')), recv(kind::recv, 1, std::string(120, '?'));
  pair.start(1, recv);
  pair.start(0, send);
  pair.write(0);
  EXPECT_TRUE(pair.deliver(0));
  pair.write(1);
  EXPECT_TRUE(pair.deliver(1));
  packet chunk = *pair.write(0);
  chunk.header.flags |= protocol::direct_placement;
  EXPECT_FALSE(pair.deliver(0, chunk));
  EXPECT_NE(pair.end(1).violation().find("without a grant"), std::string::npos);
}

TEST(session, refuses_too_many_grants) {
  session_pair pair(tiny);
  scripted send(kind::send, 1, std::string(100, 'm'));
  pair.start(0, send);
  frame way = pair.write(0)->header;
  way.type = frame_type::grant;
  for (std::size_t i = 0; i < protocol::max_grants; ++i) {
    way.flags = static_cast<std::uint16_t>(i);
    EXPECT_TRUE(pair.end(0).handle(way));
  }
  way.flags = protocol::max_grants;
  EXPECT_FALSE(pair.end(0).handle(way));
}

}  // namespace
}  // namespace tandem::test
