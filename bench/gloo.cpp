// Gloo over TCP with unbound buffers (the calls that PyTorch makes). Gloo sleeps in epoll on a
// thread of its own and wakes the caller through a condition variable; it has no polling mode for
// these calls. Forks its ranks over loopback, or runs one of two ranks on an interface:
// --mode INTERFACE,RANK,FOLDER, where the folder is empty and shared by both.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>

#include "harness.hpp"

namespace {

using tandem::bench::message;

class gloo_rank : public tandem::bench::endpoint {
 public:
  gloo_rank(int rank, int size, const std::string& interface, const std::string& folder)
      : context_(std::make_shared<gloo::rendezvous::Context>(rank, size)) {
    gloo::transport::tcp::attr where;
    where.iface = interface;
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(where);
    gloo::rendezvous::FileStore store(folder);
    context_->connectFullMesh(store, device);
  }
  std::string channel() const override { return "gloo"; }
  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  void send(int to, std::span<const message> window) override {
    for (const message one : window) buffer_of(one).send(to, slot);
    for (const message one : window) buffer_of(one).waitSend();
  }
  void recv(int from, std::span<const message> window) override {
    for (const message one : window) buffer_of(one).recv(from, slot);
    for (const message one : window) buffer_of(one).waitRecv();
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void broadcast(std::span<std::byte> data, int root) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(reinterpret_cast<char*>(data.data()), data.size());
    options.setRoot(root);
    gloo::broadcast(options);
  }
  void all_reduce(std::span<float> data) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  }
  void all_gather(std::span<std::byte> block, std::span<std::byte> all) override {
    gloo::AllgatherOptions options(context_);
    options.setInput(reinterpret_cast<char*>(block.data()), block.size());
    options.setOutput(reinterpret_cast<char*>(all.data()), all.size());
    gloo::allgather(options);
  }
  void all_to_all(std::span<std::byte> from, std::span<std::byte> into) override {
    gloo::AlltoallOptions options(context_);
    options.setInput(reinterpret_cast<char*>(from.data()), from.size());
    options.setOutput(reinterpret_cast<char*>(into.data()), into.size());
    gloo::alltoall(options);
  }

 private:
  static constexpr std::uint64_t slot = 1;

  /// Buffers are created once per memory range, as a program that reuses its buffers would.
  gloo::transport::UnboundBuffer& buffer_of(message one) {
    auto& held = buffers_[{one.data(), one.size()}];
    if (!held) held = context_->createUnboundBuffer(one.data(), one.size());
    return *held;
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::map<std::pair<void*, std::size_t>, std::unique_ptr<gloo::transport::UnboundBuffer>> buffers_;
};

}  // namespace

namespace {

int run_rank(const tandem::bench::plan& what, int rank, const std::string& interface,
             const std::string& folder) {
  try {
    gloo_rank at(rank, what.ranks, interface, folder);
    return tandem::bench::measure(at, what);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 2;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const tandem::bench::plan what = tandem::bench::parse_plan(argc, argv);
  if (const std::size_t comma = what.mode.find(','); comma != std::string::npos) {
    const std::size_t second = what.mode.find(',', comma + 1);
    const std::string rank = what.mode.substr(comma + 1, second - comma - 1);
    return run_rank(what, std::atoi(rank.c_str()), what.mode.substr(0, comma),
                    what.mode.substr(second + 1));
  }
  std::string folder = (std::filesystem::temp_directory_path() / "gloo-XXXXXX").string();
  tandem::bench::require(mkdtemp(folder.data()) != nullptr, "mkdtemp");
  const int status = tandem::bench::fork_ranks(
      what.ranks, [&](int rank) { return run_rank(what, rank, "lo", folder); });
  std::filesystem::remove_all(folder);
  return status;
}
