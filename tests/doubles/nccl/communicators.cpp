#include <algorithm>
#include <chrono>
#include <cstring>

#include "doubles/nccl/world.hpp"

namespace tandem::test::nccl {
namespace {

constexpr std::chrono::seconds init_timeout{20};

nc::result version(int* into) {
  *into = nccl_double::version;
  return nc::success;
}

const char* error_string(nc::result of) {
  switch (of) {
    case nc::success:
      return "no error";
    case nc::system_error:
      return "unhandled system error";
    case internal_error:
      return "internal error";
    case invalid_argument:
      return "invalid argument";
    case invalid_usage:
      return "invalid usage";
    default:
      return "unknown result code";
  }
}

const char* last_error(nc::comm) {
  return "as the double was asked to";
}

nc::result get_unique_id(nc::unique_id* into) {
  return call("ncclGetUniqueId", [&](world& own, cuda::world&, cuda::world::lock&) {
    *into = {};
    const std::uintptr_t id = ++own.last_handle;
    std::memcpy(into->bytes.data(), &id, sizeof id);
    return nc::success;
  });
}

nc::result init_rank(nc::comm* into, int ranks, nc::unique_id id, int rank) {
  return call("ncclCommInitRank", [&](world& own, cuda::world& in, cuda::world::lock& held) {
    const cuda::device* const device = in.current();
    if (device == nullptr || rank < 0 || rank >= ranks) return invalid_argument;
    std::shared_ptr<clique>& known = own.cliques[id.bytes];
    if (!known) known = std::make_shared<clique>();
    const std::shared_ptr<clique> own_part = known;
    own_part->size = ranks;
    if (std::ranges::count(own_part->devices, device->ordinal) > 0) return invalid_usage;
    own_part->devices.push_back(device->ordinal);
    if (++own_part->arrived == ranks) own.cliques.erase(id.bytes);
    own.arrivals.notify_all();
    const bool has_ended = own.arrivals.wait_for(held, init_timeout, [&] {
      return (own_part->arrived == own_part->size && !own.is_hanging) || own.is_ending;
    });
    if (!has_ended || own.is_hanging || own_part->arrived != own_part->size)
      return nc::system_error;
    auto made = std::make_shared<end>();
    made->of = own_part;
    made->rank = rank;
    made->device = device->ordinal;
    ++own_part->open;
    own.last_handle += 16;
    *into = reinterpret_cast<nc::comm>(own.last_handle);
    own.ends.emplace(*into, std::move(made));
    return nc::success;
  });
}

nc::result finish(const char* name, nc::comm which) {
  return call(name, [&](world& own, cuda::world& in, cuda::world::lock&) {
    const std::shared_ptr<end> found = own.find(which);
    if (!found) return invalid_argument;
    found->aborted = true;
    own.ends.erase(which);
    if (--found->of->open == 0) {  // the last one has left
      found->of->collectives.clear();
      found->of->messages.clear();
    }
    in.changed.notify_all();
    return nc::success;
  });
}

nc::result destroy(nc::comm which) {
  return finish("ncclCommDestroy", which);
}
nc::result abort(nc::comm which) {
  return finish("ncclCommAbort", which);
}

nc::result async_error(nc::comm, nc::result* into) {
  *into = nc::success;
  return nc::success;
}

}  // namespace

void fill_life(detail::nccl& table) {
  table.version = version;
  table.error_string = error_string;
  table.last_error = last_error;
  table.get_unique_id = get_unique_id;
  table.init_rank = init_rank;
  table.destroy = destroy;
  table.abort = abort;
  table.async_error = async_error;
}

}  // namespace tandem::test::nccl
