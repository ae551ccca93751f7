#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <optional>
#include <tandem/collectives.hpp>

#include "support/cuda/world.hpp"
#include "support/nccl/double.hpp"

namespace tandem::test::nccl {

// Results that only the double and its tests name.
inline constexpr nc::result internal_error = 3, invalid_argument = 4, invalid_usage = 5;

enum class kind { all_reduce, broadcast, reduce, all_gather, reduce_scatter, message };

/// What ranks have to say alike for their calls to be one.
struct terms {
  kind what = kind::message;
  std::size_t count = 0;  ///< as the call has it
  int type = 0;
  int op = 0;  ///< of sums of products, of which each rank has a number of its own: -1
  int root = 0;
  bool operator==(const terms&) const = default;
};

/// Ranks with one id, and the calls for which not all of them have come.
struct meeting;
struct clique {
  int size = 0, arrived = 0, open = 0;
  std::vector<int> devices;
  /// By how many came before: of all collectives, of the messages of a pair.
  std::map<std::size_t, std::shared_ptr<meeting>> collectives;
  std::map<std::array<std::size_t, 3>, std::shared_ptr<meeting>> messages;
};

struct made_op {
  int type = 0;
  double factor = 1;
};

/// What a vendor's library calls a communicator: one rank's end.
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
struct meeting {
  meeting(const terms& of, std::size_t parts) : says(of), sides(parts) {}
  bool all_came() const;
  bool all_here() const;

  const terms says;
  std::vector<std::optional<side>> sides;
  bool is_done = false;
};

/// A call of one rank, before it is put on a stream.
struct posted {
  terms says;
  side mine;
  std::size_t to = 0;  ///< of a message
  bool sends = false;
  cu::stream on = nullptr;
};

/// All that one double knows. Everything wants the mutex of CUDA's double held.
class world {
 public:
  explicit world(cuda_double& devices);
  ~world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  /// Who starts for ever, as others never will, is told, and is gone when this returns.
  void end_starts();

  /// The one in force, or null. Mutex not wanted.
  static world* now() noexcept;
  /// Counts, and says what was asked for this call.
  nc::result injected(const char* function);
  std::shared_ptr<end> find(nc::comm which) const;
  /// Puts what one `group_end` starts on its streams.
  nc::result start(cuda::world& in, const std::vector<posted>& all);

  std::condition_variable arrivals;
  bool is_ending = false;  ///< who starts waits for nobody any more
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
  std::shared_ptr<meeting> meet(cuda::world& in, const posted& one);
};

/// One call: `body(world&, cuda::world&, lock&)`.
template <class Body>
nc::result call(const char* name, Body body) {
  world* const own = world::now();
  cuda::world* const in = cuda::world::now();
  if (own == nullptr || in == nullptr) return internal_error;
  cuda::world::lock held(in->mutex);
  if (const nc::result asked = own->injected(name)) return asked;
  return body(*own, *in, held);
}

/// The calls that a thread has made since `group_start`.
struct group_state {
  int depth = 0;
  nc::result failed = nc::success;
  std::vector<posted> calls;
};
group_state& groups_of_this_thread() noexcept;

/// Its type by the vendor's number.
std::optional<data_type> type_of(int vendor) noexcept;
/// One element as a number.
double value_of(data_type type, const void* element);
/// What a call does once all are there.
void carry_out(cuda::world& in, const meeting& what);

// Each puts its functions into the table.
void fill_life(detail::nccl& table);
void fill_calls(detail::nccl& table);

}  // namespace tandem::test::nccl
