// Open MPI and MPICH over TCP and through shared memory, with blocking calls (and Isend, Irecv for
// windows). Their progress engines always poll. The compiler wrapper determines which of the two.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "harness.hpp"

namespace {

using tandem::bench::message;

class mpi : public tandem::bench::endpoint {
 public:
  mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  std::string channel() const override {
#ifdef MPICH_VERSION
    return "mpich";
#else
    return "openmpi";
#endif
  }
  int rank() const override {
    return rank_;
  }
  int size() const override {
    return size_;
  }

  void send(int to, std::span<const message> window) override {
    if (window.size() == 1) {
      MPI_Send(window[0].data(), count(window[0]), MPI_BYTE, to, 0, MPI_COMM_WORLD);
      return;
    }
    requests_.resize(window.size());
    for (std::size_t i = 0; i < window.size(); ++i) {
      MPI_Isend(window[i].data(), count(window[i]), MPI_BYTE, to, 0, MPI_COMM_WORLD, &requests_[i]);
    }
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }
  void recv(int from, std::span<const message> window) override {
    if (window.size() == 1) {
      MPI_Recv(window[0].data(), count(window[0]), MPI_BYTE, from, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      return;
    }
    requests_.resize(window.size());
    for (std::size_t i = 0; i < window.size(); ++i) {
      MPI_Irecv(window[i].data(), count(window[i]), MPI_BYTE, from, 0, MPI_COMM_WORLD,
                &requests_[i]);
    }
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  }
  void barrier() override {
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void broadcast(std::span<std::byte> data, int root) override {
    MPI_Bcast(data.data(), count(data), MPI_BYTE, root, MPI_COMM_WORLD);
  }
  void all_reduce(std::span<float> data) override {
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
  void all_gather(std::span<std::byte> block, std::span<std::byte> all) override {
    MPI_Allgather(block.data(), count(block), MPI_BYTE, all.data(), count(block), MPI_BYTE,
                  MPI_COMM_WORLD);
  }
  void reduce_scatter(std::span<float> all, std::span<float> block) override {
    MPI_Reduce_scatter_block(all.data(), block.data(), static_cast<int>(block.size()), MPI_FLOAT,
                             MPI_SUM, MPI_COMM_WORLD);
  }
  void all_to_all(std::span<std::byte> from, std::span<std::byte> into) override {
    const int block = static_cast<int>(from.size()) / size_;
    MPI_Alltoall(from.data(), block, MPI_BYTE, into.data(), block, MPI_BYTE, MPI_COMM_WORLD);
  }

 private:
  static int count(message one) {
    return static_cast<int>(one.size());
  }
  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 2;
  try {
    tandem::bench::plan what = tandem::bench::parse_plan(argc, argv);
    mpi at;
    what.ranks = at.size();
    status = tandem::bench::measure(at, what);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
  }
#ifdef MPICH_VERSION
  // MPI_Finalize of MPICH 4.0 over UCX's tcp may hang, waiting for a rank that no longer responds.
  MPI_Barrier(MPI_COMM_WORLD);
  std::fflush(stdout);
  std::_Exit(status);
#else
  MPI_Finalize();
  return status;
#endif
}
