// Our types against NVIDIA's nccl.h, at compile time; against AMD's by hand (rccl_header).
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>

#include "abi.hpp"

namespace tandem::test {
namespace {

namespace ours = nccl_abi;

static_assert(sizeof(ours::unique_id) == sizeof(ncclUniqueId));
static_assert(alignof(ours::unique_id) == alignof(ncclUniqueId));
static_assert(sizeof(ours::result) == sizeof(ncclResult_t));
static_assert(sizeof(ours::type) == sizeof(ncclDataType_t));
static_assert(sizeof(ours::redop) == sizeof(ncclRedOp_t));

#define SAME(our, their) static_assert(static_cast<int>(ours::our) == static_cast<int>(their))
SAME(success, ncclSuccess);
SAME(unhandled_device_error, ncclUnhandledCudaError);
SAME(system_error, ncclSystemError);
SAME(internal_error, ncclInternalError);
SAME(invalid_argument, ncclInvalidArgument);
SAME(invalid_usage, ncclInvalidUsage);
SAME(remote_error, ncclRemoteError);
SAME(in_progress, ncclInProgress);
SAME(sum, ncclSum);
SAME(product, ncclProd);
SAME(maximum, ncclMax);
SAME(minimum, ncclMin);
SAME(average, ncclAvg);
SAME(built_in_ops, ncclNumOps);
SAME(int8, ncclInt8);
SAME(int8, ncclChar);
SAME(uint8, ncclUint8);
SAME(int32, ncclInt32);
SAME(uint32, ncclUint32);
SAME(int64, ncclInt64);
SAME(uint64, ncclUint64);
SAME(float16, ncclFloat16);
SAME(float32, ncclFloat32);
SAME(float64, ncclFloat64);
SAME(bfloat16, ncclBfloat16);
#if defined(RCCL_FLOAT8) && NCCL_VERSION_CODE < 22400
SAME(float8_e4m3, ncclFp8E4M3);
SAME(float8_e5m2, ncclFp8E5M2);
#else
SAME(float8_e4m3, ncclFloat8e4m3);
SAME(float8_e5m2, ncclFloat8e5m2);
#endif
static_assert(ours::float8_e5m2 + 1 == ncclNumTypes);
SAME(on_device, ncclScalarDevice);
SAME(on_host, ncclScalarHostImmediate);
static_assert(ours::no_color == NCCL_SPLIT_NOCOLOR);
#if defined(NCCL_SHRINK_ABORT)
static_assert(ours::shrink_abort == NCCL_SHRINK_ABORT);
#endif
static_assert(ours::undefined == NCCL_CONFIG_UNDEF_INT);

#define SAME_OFFSET(our, their) \
  static_assert(offsetof(ours::config, our) == offsetof(ncclConfig_t, their))
SAME_OFFSET(size, size);
SAME_OFFSET(magic, magic);
SAME_OFFSET(version, version);
SAME_OFFSET(blocking, blocking);
SAME_OFFSET(cluster_size, cgaClusterSize);
SAME_OFFSET(min_blocks, minCTAs);
SAME_OFFSET(max_blocks, maxCTAs);
SAME_OFFSET(net_name, netName);
SAME_OFFSET(split_share, splitShare);
#if NCCL_VERSION_CODE >= 22700
SAME_OFFSET(traffic_class, trafficClass);
SAME_OFFSET(comm_name, commName);
#endif

TEST(NcclHeader, ConfigurationBeginsAlike) {
  ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const auto& read = reinterpret_cast<const ours::config&>(theirs);
  EXPECT_EQ(read.size, sizeof theirs);
  EXPECT_EQ(read.magic, ours::config_magic);
  EXPECT_EQ(read.blocking, ours::undefined);
}

}  // namespace
}  // namespace tandem::test
