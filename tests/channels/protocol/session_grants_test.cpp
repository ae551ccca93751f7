// Write grants for a peer's NIC: sent before an accept, ended when the message is complete or the
// peer has confirmed their revocation; and protocol violations in them.

#include <boost/asio/error.hpp>

#include "support/session_pair.hpp"

namespace tandem::test {
namespace {

using protocol::frame;
using protocol::frame_type;
using kind = operation::kind;

constexpr protocol::limits tiny{24, 64, 512, 2, 16};

/// Grants writes into every view on this number of lanes.
class grant_all_lanes final : public protocol::remote_write_grants {
 public:
  explicit grant_all_lanes(std::uint16_t lanes) : lanes_(lanes) {}
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
  void view_released(operation&) noexcept override { ++releases; }

  bool granted = false;
  int releases = 0;

 private:
  const std::uint16_t lanes_;
};

/// A message of two chunks from end 0, announced to a receive of end 1.
class session_grants : public testing::Test {
 protected:
  session_grants() {
    pair_.end(1).set_remote_write_grants(&remote_write_grants_);
    pair_.start(1, recv_);
    pair_.start(0, send_);
    announce_ = pair_.write(0)->header;
    EXPECT_EQ(announce_.type, frame_type::announce);
    EXPECT_TRUE(pair_.deliver(0));
  }
  /// Delivers the grants and the accept.
  void accept() {
    for (int i = 0; i < 3; ++i) {
      pair_.write(1);
      EXPECT_TRUE(pair_.deliver(1)) << pair_.end(0).violation();
    }
  }
  /// Writes the next chunk in place, like a NIC.
  frame place_chunk() {
    protocol::outgoing_frame out;
    EXPECT_TRUE(pair_.end(0).next(out));
    EXPECT_EQ(out.header.type, frame_type::data);
    const protocol::grant* const grant = pair_.end(0).grant_for(out.header, 1, 5);
    if (grant == nullptr) {
      ADD_FAILURE() << "no grant";
      return out.header;
    }
    EXPECT_EQ(grant->key, 71u);
    auto* const to = reinterpret_cast<char*>(grant->address + out.header.offset);
    std::memcpy(to, out.payload.data, out.payload.bytes);
    out.header.flags |= protocol::direct_placement;
    pair_.end(0).placed(out.header);
    placed_.push_back(out);
    return out.header;
  }
  bool receive_chunk(const frame& chunk) {
    protocol::incoming_payload where;
    if (!pair_.end(1).begin(chunk, where)) return false;
    pair_.end(1).end(where);
    return true;
  }
  bool receive_frame(int side, frame_type type, const frame& like) {
    frame f;
    f.type = type;
    f.flow = like.flow;
    f.message_id = like.message_id;
    return pair_.end(side).handle(f);
  }
  /// Type of the next frame of an end.
  frame_type next_type(int side) {
    const packet* const next = pair_.write(side);
    return next == nullptr ? frame_type::credit : next->header.type;
  }

  session_pair pair_{tiny};
  grant_all_lanes remote_write_grants_{2};
  scripted send_{kind::send, 1, std::string(100, 'm')};
  scripted recv_{kind::recv, 1, std::string(120, '?')};
  frame announce_;
  std::vector<protocol::outgoing_frame> placed_;
};

TEST_F(session_grants, sends_grants_before_accept) {
  EXPECT_EQ(next_type(1), frame_type::grant);
  EXPECT_EQ(next_type(1), frame_type::grant);
  EXPECT_EQ(next_type(1), frame_type::accept);
}

TEST_F(session_grants, ends_with_the_last_chunk) {
  accept();
  EXPECT_EQ(pair_.end(0).grant_for(announce_, 1, 6), nullptr) << "of another epoch";
  EXPECT_EQ(pair_.end(0).grant_for(announce_, 2, 5), nullptr) << "of another lane";
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(receive_chunk(place_chunk())) << pair_.end(1).violation();
  EXPECT_TRUE(recv_.is_over());
  EXPECT_EQ(recv_.received(), send_.bytes_of);
  EXPECT_EQ(remote_write_grants_.releases, 1);
  EXPECT_FALSE(remote_write_grants_.granted);
}

TEST_F(session_grants, holds_cancelled_receive_until_revoked) {
  accept();
  const frame first = place_chunk();
  pair_.end(1).cancel(recv_);
  EXPECT_EQ(pair_.end(1).pop_done(), nullptr) << "completed while it may be written";
  EXPECT_EQ(next_type(1), frame_type::revoke);
  EXPECT_TRUE(pair_.deliver(1));
  EXPECT_EQ(pair_.end(0).grant_for(first, 1, 5), nullptr);
  protocol::outgoing_frame rest;
  EXPECT_TRUE(pair_.end(0).next(rest));
  EXPECT_EQ(rest.header.type, frame_type::data) << "no answer while a chunk is in flight";
  EXPECT_TRUE(receive_chunk(first));
  pair_.end(0).sent(placed_[0]);
  EXPECT_EQ(next_type(0), frame_type::revoked);
  EXPECT_TRUE(pair_.end(1).handle(pair_.on_wire[0].back().header));
  EXPECT_EQ(pair_.end(1).pop_done(), &recv_);
  EXPECT_EQ(recv_.result, boost::asio::error::operation_aborted);
  EXPECT_EQ(remote_write_grants_.releases, 1);
  EXPECT_FALSE(receive_chunk(first)) << "placed after the revoke";
}

TEST_F(session_grants, displaced_chunk_is_no_longer_in_flight) {
  accept();
  const frame first = place_chunk();
  pair_.end(1).cancel(recv_);
  EXPECT_EQ(next_type(1), frame_type::revoke);
  EXPECT_TRUE(pair_.deliver(1));
  pair_.end(0).placement_ended(first);
  EXPECT_EQ(next_type(0), frame_type::revoked);
}

TEST_F(session_grants, last_chunk_ends_the_grant) {
  accept();
  const frame first = place_chunk(), second = place_chunk();
  pair_.end(1).cancel(recv_);
  EXPECT_TRUE(receive_chunk(first));
  EXPECT_EQ(pair_.end(1).pop_done(), nullptr);
  EXPECT_TRUE(receive_chunk(second));
  EXPECT_EQ(pair_.end(1).pop_done(), &recv_);
  EXPECT_TRUE(receive_frame(1, frame_type::revoked, announce_)) << "too late, and harmless";
}

TEST_F(session_grants, withdrawal_ends_the_grant) {
  accept();
  pair_.end(1).cancel(recv_);
  EXPECT_TRUE(receive_frame(1, frame_type::withdraw, announce_));
  EXPECT_EQ(pair_.end(1).pop_done(), &recv_);
}

TEST_F(session_grants, holds_failed_operation_until_lanes_are_quiet) {
  accept();
  pair_.end(1).fail(error(errc::channel_closed, "closed"));
  EXPECT_EQ(pair_.end(1).pop_done(), nullptr);
  pair_.end(1).grants_ended(recv_);
  EXPECT_EQ(pair_.end(1).pop_done(), &recv_);
  EXPECT_EQ(recv_.result, errc::channel_closed);
}

TEST_F(session_grants, holds_send_while_nic_reads) {
  accept();
  ++send_.pins;
  pair_.end(0).fail(error(errc::channel_closed, "closed"));
  EXPECT_EQ(pair_.end(0).pop_done(), nullptr);
  pair_.end(0).unpin(send_);
  EXPECT_EQ(pair_.end(0).pop_done(), &send_);
}

TEST_F(session_grants, refuses_protocol_violations) {
  frame grant = announce_;
  grant.type = frame_type::grant;
  grant.flags = 7;
  EXPECT_FALSE(receive_frame(0, frame_type::revoke, announce_)) << "not accepted yet";
  EXPECT_TRUE(pair_.end(0).handle(grant));
  EXPECT_FALSE(pair_.end(0).handle(grant)) << "twice for one lane";
  grant.message_id += std::uint64_t{1} << 16;
  EXPECT_FALSE(pair_.end(0).handle(grant)) << "for an unknown message";
  accept();
  grant = announce_;
  grant.type = frame_type::grant;
  grant.flags = 8;
  EXPECT_FALSE(pair_.end(0).handle(grant)) << "after the accept";
  EXPECT_FALSE(receive_frame(1, frame_type::revoked, announce_)) << "unrequested";
  EXPECT_TRUE(receive_frame(0, frame_type::revoke, announce_));
  EXPECT_FALSE(receive_frame(0, frame_type::revoke, announce_)) << "twice";
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
  frame grant = pair.write(0)->header;
  grant.type = frame_type::grant;
  for (std::size_t i = 0; i < protocol::max_grants; ++i) {
    grant.flags = static_cast<std::uint16_t>(i);
    EXPECT_TRUE(pair.end(0).handle(grant));
  }
  grant.flags = protocol::max_grants;
  EXPECT_FALSE(pair.end(0).handle(grant));
}

}  // namespace
}  // namespace tandem::test
