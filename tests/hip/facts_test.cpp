#include "hip/rig.hpp"

namespace tandem::test {
namespace {

TEST(hip_facts, combine_hip_and_hsa) {
  cuda_double::options as;
  as.devices = 3;
  as.memory_bytes = std::size_t{256} << 20;
  const hip_rig rig(as);
  const accelerators all = find_accelerators(memory_kind::hip);
  ASSERT_EQ(all.found.size(), 3u);
  EXPECT_EQ(all.why_none, "");
  const accelerator_facts& facts = all.found[1]->facts();
  EXPECT_EQ(all.found[1], &hip_at(1));
  EXPECT_EQ(all.found[1]->text(), "hip:1 (HIP on Double H200)");
  EXPECT_EQ(facts.kind, memory_kind::hip);
  EXPECT_EQ(facts.device, 1);
  EXPECT_EQ(facts.pci, "00ff:3c:00.0");
  EXPECT_EQ(facts.uuid, "01f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
  EXPECT_EQ(facts.architecture, "gfx942");
  EXPECT_EQ(facts.driver, "6.2");
  EXPECT_EQ(facts.memory_bytes, std::size_t{256} << 20);
  EXPECT_EQ(facts.multiprocessors, 132);
  EXPECT_EQ(facts.copy_engines, 3);
  EXPECT_EQ(facts.numa_node, -1);
  EXPECT_TRUE(facts.has_stream_memory_ops);
  EXPECT_TRUE(facts.exports_dma_buf);
  EXPECT_TRUE(facts.supports_rdma);
  EXPECT_TRUE(facts.needs_rdma_flush);
}

TEST(hip_facts, of_a_less_capable_device) {
  hip_on_cuda::options pretending;
  pretending.has_stream_memory_ops = pretending.has_dma_buf = false;
  const hip_rig rig({}, pretending);
  const accelerator_facts& facts = hip_at(0).facts();
  EXPECT_FALSE(facts.has_stream_memory_ops);
  EXPECT_FALSE(facts.exports_dma_buf);
  expect_error(refusal_of([] { hip_at(0).export_dma_buf(nullptr, 1); }), errc::unsupported_memory,
               {"hip:0 (HIP on Double H200)", "dma-buf"});
}

TEST(hip_facts, without_hsa) {
  hip_rig rig;
  rig.hip.table().below = {};
  const accelerator_facts& facts = hip_at(0).facts();
  EXPECT_EQ(facts.architecture, "");
  EXPECT_FALSE(facts.exports_dma_buf);
}

TEST(hip_facts, rocm_without_dma_buf_support) {
  hip_rig rig;
  rig.hip.table().below.export_dma_buf = nullptr;
  EXPECT_EQ(hip_at(0).facts().architecture, "gfx942");
  EXPECT_FALSE(hip_at(0).facts().exports_dma_buf);
}

TEST(hip_facts, gpu_without_id_uses_its_pci_address) {
  hip_on_cuda::options pretending;
  pretending.has_unique_ids = false;
  const hip_rig rig({}, pretending);
  EXPECT_NE(hip_at(0).facts().uuid, hip_at(1).facts().uuid);
  EXPECT_EQ(hip_at(1).facts().uuid.substr(0, 8), "30306666") << "\"00ff\"";
}

TEST(hip_facts, version_is_that_of_hip) {
  hip_on_cuda::options pretending;
  pretending.version = 50730921;
  const hip_rig rig({}, pretending);
  EXPECT_EQ(hip_at(0).facts().driver, "5.7");
}

TEST(hip_facts, unknown_address_has_no_facts) {
  const hip_rig rig;
  hip_on_cuda::fail("hipDeviceGetAttribute", 2, amd::invalid_value);
  EXPECT_EQ(hip_at(0).facts().multiprocessors, 132);
  EXPECT_EQ(hip_at(0).facts().copy_engines, 0);
}

TEST(hip_facts, unresponsive_device_is_an_error) {
  for (const char* const each :
       {"hipDeviceGetName", "hipDeviceGetPCIBusId", "hipDeviceGetUuid", "hipRuntimeGetVersion",
        "hipDeviceTotalMem", "hipDeviceGetAttribute"}) {
    const hip_rig rig;
    hip_on_cuda::fail(each, 1, amd::invalid_device);
    expect_error(refusal_of([] { find_accelerators(memory_kind::hip); }), errc::device_failed,
                 {each, "hip:0", "hipErrorInvalidDevice"});
  }
  const hip_rig rig;
  hip_on_cuda::fail("hipGetDeviceCount", 1, amd::not_initialized);
  expect_error(refusal_of([] { find_accelerators(memory_kind::hip); }), errc::device_failed,
               {"hipGetDeviceCount on this machine", "hipErrorNotInitialized"});
}

TEST(hip_facts, no_devices) {
  cuda_double::options as;
  as.devices = 0;
  const cuda_double gpus(as);
  const hip_on_cuda hip;
  const accelerators all = find_accelerators(memory_kind::hip);
  EXPECT_TRUE(all.found.empty());
  EXPECT_NE(all.why_none, "");
}

TEST(hip_facts, both_vendors_at_once) {
  const hip_rig rig;
  EXPECT_EQ(accelerator_at(memory_kind::cuda, 0).text(), "cuda:0 (Double H200)");
  EXPECT_EQ(hip_at(0).text(), "hip:0 (HIP on Double H200)");
}

}  // namespace
}  // namespace tandem::test
