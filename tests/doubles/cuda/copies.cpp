#include <atomic>
#include <cstring>
#include <vector>

#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

constexpr const char* copying = "cuMemcpyAsync";
constexpr const char* copying_many = "cuMemcpyBatchAsync";
constexpr const char* filling = "cuMemsetD8Async";
constexpr const char* waiting_for = "cuStreamWaitValue32";
constexpr const char* writing = "cuStreamWriteValue32";

/// Resolves both addresses when the work is executed.
struct ends {
  std::byte* to = nullptr;
  std::byte* from = nullptr;
};

/// False: misuse, which is recorded.
bool find_end(world& in, const char* call, std::byte*& into, cu::address at, std::size_t bytes,
              int by, bool& pageable) {
  std::string why;
  into = in.reach(at, bytes, by, pageable, why);
  if (into != nullptr) return true;
  in.misuse(cu::invalid_value,
            std::string(call) + " of " + std::to_string(bytes) + " bytes: " + why);
  return false;
}

cu::result copy(cu::address to, cu::address from, std::size_t bytes, cu::stream on) {
  return call_on_device(copying, [&](world& in, world::lock& held, device& at) {
    const std::shared_ptr<stream> where = in.stream_of(on, at);
    if (!where) return in.misuse(invalid_handle, "cuMemcpyAsync: the stream is destroyed");
    if (bytes == 0) return cu::success;
    const auto find = [&in, to, from, bytes, by = where->device](ends& found, bool& pageable) {
      return find_end(in, copying, found.to, to, bytes, by, pageable) &&
             find_end(in, copying, found.from, from, bytes, by, pageable);
    };
    ends now;
    bool pageable = false;
    if (!find(now, pageable)) return cu::invalid_value;
    const cu::result queued =
        in.queue(*where, {.what = copying,
                          .run =
                              [&in, find, bytes, pageable] {
                                const auto locked = in.lock_for_copy();
                                ends found;
                                bool is_pageable = false;
                                if (!find(found, is_pageable)) return;
                                if (is_pageable != pageable) {
                                  in.misuse(cu::invalid_value, "cuMemcpyAsync: no longer pinned");
                                  return;
                                }
                                ++in.seen.copies;
                                in.seen.copied_bytes += bytes;
                                in.seen.pageable_copies += pageable ? 1 : 0;
                                if (locked) locked->unlock();
                                std::memmove(found.to, found.from, bytes);
                              },
                          .without_lock = in.options.concurrent_copies,
                          .source_device = in.left_by_copy(to, from)});
    // Pageable memory is copied synchronously.
    return queued == cu::success && pageable ? in.synchronize(held, where) : queued;
  });
}

/// Strict: if one copy is invalid, none is queued.
cu::result copy_many(cu::address* to, cu::address* from, std::size_t* bytes, std::size_t count,
                     cu::copy_attributes* attributes, std::size_t* attributes_from,
                     std::size_t attributes_count, std::size_t* failed, cu::stream on) {
  return call_on_device(copying_many, [&](world& in, world::lock&, device& at) {
    const std::shared_ptr<stream> where = in.stream_of(on, at);
    if (!where) return in.misuse(invalid_handle, "cuMemcpyBatchAsync: the stream is destroyed");
    const bool is_plain = attributes_count == 1 && *attributes_from == 0 &&
                          attributes->source_order == cu::source_order_of_stream;
    if (on == nullptr || count == 0 || !is_plain) {
      return in.misuse(cu::invalid_value,
                       "cuMemcpyBatchAsync: the default stream, no copies, or "
                       "attributes that the double does not know");
    }
    std::vector<ends> places(count);
    for (std::size_t i = 0; i < count; ++i) {
      *failed = i;
      bool pageable = false;
      if (bytes[i] == 0) return in.misuse(cu::invalid_value, "cuMemcpyBatchAsync: of no bytes");
      if (!find_end(in, copying_many, places[i].to, to[i], bytes[i], where->device, pageable) ||
          !find_end(in, copying_many, places[i].from, from[i], bytes[i], where->device, pageable)) {
        return cu::invalid_value;
      }
      if (pageable) return in.misuse(cu::invalid_value, "cuMemcpyBatchAsync: not pinned");
    }
    const std::vector<cu::address> tos(to, to + count), froms(from, from + count);
    const std::vector<std::size_t> sizes(bytes, bytes + count);
    return in.queue(
        *where,
        {.what = copying_many,
         .run =
             [&in, tos, froms, sizes, by = where->device] {
               const auto locked = in.lock_for_copy();
               for (std::size_t i = tos.size(); i-- > 0;) {  // the order is not specified
                 ends found;
                 bool pageable = false;
                 if (!find_end(in, copying_many, found.to, tos[i], sizes[i], by, pageable) ||
                     !find_end(in, copying_many, found.from, froms[i], sizes[i], by, pageable)) {
                   return;
                 }
                 std::memmove(found.to, found.from, sizes[i]);
                 ++in.seen.copies;
                 in.seen.copied_bytes += sizes[i];
               }
             },
         .without_lock = in.options.concurrent_copies,
         .source_device = in.left_by_copy(tos[0], froms[0])});
  });
}

cu::result fill(cu::address to, unsigned char with, std::size_t bytes, cu::stream on) {
  return call_on_device(filling, [&](world& in, world::lock&, device& at) {
    const std::shared_ptr<stream> where = in.stream_of(on, at);
    if (!where) return in.misuse(invalid_handle, "cuMemsetD8Async: the stream is destroyed");
    if (bytes == 0) return cu::success;
    const auto find = [&in, to, bytes, by = where->device](std::byte*& found) {
      bool pageable = false;
      if (!find_end(in, filling, found, to, bytes, by, pageable)) return false;
      if (!pageable) return true;
      in.misuse(cu::invalid_value, "cuMemsetD8Async: " + in.what_is(to));
      return false;
    };
    std::byte* now = nullptr;
    if (!find(now)) return cu::invalid_value;
    return in.queue(*where, {.what = filling, .run = [&in, find, with, bytes] {
                               std::byte* found = nullptr;
                               if (!find(found)) return;
                               std::memset(found, with, bytes);
                               ++in.seen.fills;
                             }});
  });
}

/// The word, or null: misuse, which is recorded.
std::uint32_t* find_word(world& in, const char* call, cu::address at, int by) {
  bool pageable = false;
  std::byte* found = nullptr;
  if (at % sizeof(std::uint32_t) == 0) {
    if (!find_end(in, call, found, at, sizeof(std::uint32_t), by, pageable)) return nullptr;
    if (!pageable) return reinterpret_cast<std::uint32_t*>(found);
  }
  in.misuse(cu::invalid_value, std::string(call) + ": not aligned, or " + in.what_is(at));
  return nullptr;
}

cu::result wait_value(cu::stream which, cu::address at, std::uint32_t value, unsigned flags) {
  return call_on_device(waiting_for, [&](world& in, world::lock&, device& by) {
    if (!in.options.stream_values) return cu::not_supported;
    const std::shared_ptr<stream> where = in.stream_of(which, by);
    if (!where) return in.misuse(invalid_handle, "cuStreamWaitValue32: the stream is destroyed");
    if (flags != cu::wait_value_geq) return cu::invalid_value;
    if (find_word(in, waiting_for, at, where->device) == nullptr) return cu::invalid_value;
    const auto reached = [&in, at, value, device = where->device] {
      std::uint32_t* const word = find_word(in, waiting_for, at, device);
      if (word == nullptr) return true;  // misuse is recorded; it would never become ready
      const std::uint32_t now = std::atomic_ref(*word).load(std::memory_order_acquire);
      return static_cast<std::int32_t>(now - value) >= 0;
    };
    return in.queue(*where,
                    {.what = waiting_for, .is_ready = reached, .run = [] {}, .polls = true});
  });
}

cu::result write_value(cu::stream which, cu::address at, std::uint32_t value, unsigned flags) {
  return call_on_device(writing, [&](world& in, world::lock&, device& by) {
    if (!in.options.stream_values) return cu::not_supported;
    const std::shared_ptr<stream> where = in.stream_of(which, by);
    if (!where) return in.misuse(invalid_handle, "cuStreamWriteValue32: the stream is destroyed");
    if (flags != 0) return cu::invalid_value;
    if (find_word(in, writing, at, where->device) == nullptr) return cu::invalid_value;
    return in.queue(*where, {.what = writing, .run = [&in, at, value, device = where->device] {
                               if (std::uint32_t* const word = find_word(in, writing, at, device)) {
                                 std::atomic_ref(*word).store(value, std::memory_order_release);
                               }
                             }});
  });
}

}  // namespace

std::byte* world::reach(cu::address at, std::size_t bytes, int by, bool& pageable,
                        std::string& why) {
  if (const region* const found = find(at)) {
    const std::size_t offset = at - found->base;
    if (bytes > found->bytes - offset) {
      why = what_is(at) + ", which ends before";
      return nullptr;
    }
    const std::set<int>& reached = devices[static_cast<std::size_t>(by)].reached;
    if (found->kind == region_kind::pages) {
      if (found->accessible.count(by) == 1) return found->data + offset;
      why = what_is(at) + ", which device " + std::to_string(by) + " may not access";
      return nullptr;
    }
    if (!found->is_host() && found->device != by && found->opened_by != by &&
        reached.count(found->device) == 0) {
      why = what_is(at) + " on device " + std::to_string(found->device) + ", which device " +
            std::to_string(by) + " does not reach";
      return nullptr;
    }
    if (found->kind == region_kind::opening && found->exported_here &&
        std::none_of(regions.begin(), regions.end(), [&](const auto& each) {
          return each.second.kind == region_kind::allocation && each.second.id == found->id;
        })) {
      why = what_is(at) + "; it is freed";
      return nullptr;
    }
    return found->data + offset;
  }
  const auto next = regions.lower_bound(at);
  if (at == 0 || is_device_address(at) || (next != regions.end() && next->first - at < bytes)) {
    why = what_is(at);
    return nullptr;
  }
  pageable = true;
  return reinterpret_cast<std::byte*>(at);
}

void fill_movement(detail::cuda& table) {
  table.copy = copy;
  table.copy_many = copy_many;
  table.fill = fill;
  table.wait_value = wait_value;
  table.write_value = write_value;
}

}  // namespace tandem::test::cuda
