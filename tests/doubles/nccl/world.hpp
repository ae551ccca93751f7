#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <optional>
#include <tandem/collectives.hpp>

#include "doubles/cuda/world.hpp"
#include "doubles/nccl/double.hpp"

namespace tandem::test::nccl {

// Results that only the double and its tests use.
inline constexpr nc::result internal_error = 3, invalid_argument = 4, invalid_usage = 5;

enum class kind { all_reduce, broadcast, reduce, all_gather, reduce_scatter, message };

/// The parameters that must be equal on all ranks of a call.
struct call_parameters {
  kind what = kind::message;
  std::size_t count = 0;  ///< as in the call
  int type = 0;
  int op = 0;  ///< -1: a premultiplied sum, whose factor each rank has itself
  int root = 0;
  bool operator==(const call_parameters&) const = default;
};

/// The ranks with one unique id, and their calls for which some ranks are missing.
struct shared_call;
struct clique {
  int size = 0, arrived = 0, open = 0;
  std::vector<int> devices;
  /// By sequence number: of all collectives, of the messages of a pair.
  std::map<std::size_t, std::shared_ptr<shared_call>> collectives;
  std::map<std::array<std::size_t, 3>, std::shared_ptr<shared_call>> messages;
};

struct made_op {
  int type = 0;
  double factor = 1;
};

/// A communicator of the library: one rank's end.
struct end {
  std::shared_ptr<clique> of;
  int rank = 0, device = 0;
  bool aborted = false;
  std::size_t collectives = 0;                                 ///< so far
  std::map<std::array<std::size_t, 3>, std::size_t> messages;  ///< from, to, and which side
  std::map<int, made_op> ops;
};

/// One rank's part in a call.
struct side {
  std::shared_ptr<end> by;
  cu::address from = 0, into = 0;
  double factor = 1;
  bool is_here = false;  ///< at the head of its stream
};

/// One call of all ranks of a clique, or one message: its sender and its receiver.
struct shared_call {
  shared_call(const call_parameters& of, std::size_t parts) : parameters(of), sides(parts) {}
  bool all_arrived() const;
  bool all_here() const;

  const call_parameters parameters;
  std::vector<std::optional<side>> sides;
  bool is_done = false;
};

/// A call of one rank before it is queued on a stream.
struct posted {
  call_parameters parameters;
  side own_part;
  std::size_t to = 0;  ///< of a message
  bool sends = false;
  cu::stream on = nullptr;
};

/// The state of one double. All functions require the mutex of CUDA's double.
class world {
 public:
  explicit world(cuda_double& devices);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Wakes the ranks that wait in an initialization others will never join; returns when they have
  /// left.
  void end_initializations();

  /// The live double's state, or null. Without the mutex.
  static world* now() noexcept;
  void lack_blocks();
  /// Counts the call; returns its injected result.
  nc::result injected(const char* function);
  std::shared_ptr<end> find(nc::comm which) const;
  /// Queues the calls of one `group_end` on their streams.
  nc::result start(cuda::world& in, const std::vector<posted>& all);

  std::condition_variable_any arrivals;
  bool is_hanging = false;  ///< initializations wait until `is_ending`
  bool is_ending = false;   ///< initializations wait no longer
  bool is_mismatch_hanging = false;
  std::map<std::string, std::size_t> counts;
  struct fault {
    std::string function;
    int at_call;
    nc::result with;
  };
  std::vector<fault> faults;
  std::map<std::array<char, 128>, std::shared_ptr<clique>> cliques;
  std::map<nc::comm, std::shared_ptr<end>> ends;
  std::uintptr_t last_handle = 0x00e0'0000'0000'0000;
  int last_op = 15;

 private:
  std::shared_ptr<shared_call> match(cuda::world& in, const posted& one);
};

/// A call: `body(world&, cuda::world&, lock&)`.
template <class Body>
nc::result call(const char* name, Body body) {
  world* const own = world::now();
  cuda::world* const in = cuda::world::now();
  if (own == nullptr || in == nullptr) return internal_error;
  cuda::world::lock held(in->mutex);
  if (const nc::result asked = own->injected(name)) return asked;
  return body(*own, *in, held);
}

/// The calls of a thread since `group_start`.
struct group_state {
  int depth = 0;
  nc::result failed = nc::success;
  std::vector<posted> calls;
};
group_state& groups_of_this_thread() noexcept;

/// The type for a vendor's number.
std::optional<data_type> type_of(int vendor) noexcept;
/// One element as a number.
double value_of(data_type type, const void* element);
/// Executes a call once all its parts are there.
void execute(cuda::world& in, const shared_call& what);

// Each adds its functions to the table.
void fill_life(detail::nccl& table);
void fill_calls(detail::nccl& table);

}  // namespace tandem::test::nccl
