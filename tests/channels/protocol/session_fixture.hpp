#pragma once

#include <gtest/gtest.h>

#include "protocol/session.hpp"
#include "support/session_pair.hpp"

namespace tandem::test {

using protocol::frame_type;
using kind = operation::kind;

/// Eager up to 100 bytes; 4 KiB of credits, of them 1 KiB for a flow; chunks of 50 bytes.
inline constexpr protocol::limits small{100, 50, 4096, 8};

struct session_test : testing::Test {
  session_pair pair{small};

  void start(int side, operation& op) { pair.start(side, op); }
  void cancel(int side, operation& op) {
    pair.end(side).cancel(op);
    pair.forget_done(side);
  }
  /// Writes the next frame and returns its type.
  frame_type next(int side) {
    const packet* p = pair.write(side);
    EXPECT_NE(p, nullptr) << "no frame to send";
    return p == nullptr ? frame_type::close : p->header.type;
  }
  /// A long message of side 0 is announced and accepted: its data may be sent.
  void announce_and_accept() {
    EXPECT_EQ(next(0), frame_type::announce);
    deliver(0);
    EXPECT_EQ(next(1), frame_type::accept);
    deliver(1);
  }
  bool is_silent(int side) { return pair.write(side) == nullptr; }
  void deliver(int from) { EXPECT_TRUE(pair.deliver(from)) << pair.end(1 - from).violation(); }
};

}  // namespace tandem::test
