// Queue depths of an RDMA lane for any settings.

#include <gtest/gtest.h>

#include <limits>

#include "transports/rails/rdma_lanes.hpp"
#include "transports/rails/verbs/qp_info.hpp"

namespace tandem::test {
namespace {

TEST(QueueDepths, MatchPeerForAnyChunkSize) {
  for (const std::size_t chunk_bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{1024}, std::size_t{64} << 10,
        std::size_t{1} << 20, std::size_t{1} << 31, std::numeric_limits<std::size_t>::max()}) {
    settings options;
    options.chunk_bytes = chunk_bytes;
    verbs::qp_info one;
    one.chunks_at = 4096;
    one.control_pair = 1;
    one.has = rails::queue_depths_for(options);
    EXPECT_NO_THROW(verbs::decode(verbs::encode(one))) << chunk_bytes;
    EXPECT_GT(one.has.chunk_bytes, one.has.record_bytes) << chunk_bytes;
    EXPECT_LE(one.has.chunk_bytes, 256u << 10) << chunk_bytes;
  }
}

TEST(QueueDepths, ShrinkWithChunkSize) {
  settings options;
  EXPECT_EQ(rails::queue_depths_for(options).chunk_bytes, 256u << 10);
  options.chunk_bytes = 16 << 10;
  EXPECT_EQ(rails::queue_depths_for(options).chunk_bytes, 32u << 10);
}

}  // namespace
}  // namespace tandem::test
