#include "arguments.hpp"

#include <fmt/format.h>

#include <tandem/accelerator.hpp>
#include <tandem/typed_collectives.hpp>

#include "communicator/call.hpp"
#include "reduce/device_queue.hpp"
#include "reduce/reducer.hpp"

namespace tandem {

namespace detail {

error invalid_root(const group& g, const char* call, int root) {
  return error(errc::bad_input,
               fmt::format("{}: root {} is not in a group of {}", call, root, g.size()));
}

namespace {

/// Checks that the channels to all other ranks carry such memory.
std::optional<error> check_channels(const group& g, const char* call, memory_kind kind) {
  for (int peer = 0; peer < g.size(); ++peer) {
    if (peer == g.rank() || g.over().carries(kind, g.member(peer))) continue;
    return error(
        errc::unsupported_memory,
        fmt::format("{}: from rank {} to rank {}, {} carries host memory only, not {}", call,
                    g.job_rank(), g.member(peer), g.over().kind_to(g.member(peer)), name(kind)),
        "copy it to host memory, or use a fabric that carries device memory");
  }
  return std::nullopt;
}

/// The error that `ask` throws, prefixed with the name of the call.
template <class Ask>
std::optional<error> error_from(const char* call, Ask ask) {
  try {
    ask();
  } catch (const error& why) {
    error_context c = why.context();
    c.detail = fmt::format("{}: {}", call, c.detail);
    return error(why.code(), c);
  }
  return std::nullopt;
}

}  // namespace

std::optional<error> check_device(const accelerator& own, const char* call,
                                  const const_view& data) {
  if (data.kind == own.kind() && data.device == own.device()) return std::nullopt;
  return error(errc::unsupported_memory,
               fmt::format("{}: a view in {} memory of device {}, but the island's is {}", call,
                           name(data.kind), data.device, own.text()),
               "pass views on the device of this rank's `island_member`");
}

std::optional<error> check_other_memory(const call_backend& by, const char* call,
                                        const const_view& data) {
  if (data.bytes == 0) return std::nullopt;
  if (data.data == nullptr) {
    return error(errc::bad_input, fmt::format("{}: null address for {} bytes", call, data.bytes));
  }
  if (data.kind == memory_kind::host) return std::nullopt;
  if (by.islands != nullptr) {
    if (auto wrong = check_device(by.islands->memory_of(), call, data)) return wrong;
  }
  if (by.channels == nullptr) return std::nullopt;
  if (auto wrong = check_channels(*by.channels, call, data.kind)) return wrong;
  return error_from(call, [&] { by.channels->queue_for(data); });
}

namespace {

/// Checks type, operation, length and alignment, for any memory.
std::optional<error> check_reduction(const char* call, const const_view& data, data_type type,
                                     reduction what) {
  const std::size_t element_bytes = bytes_of(type);
  if (element_bytes == 0 || !is_defined(data_type::int8, what.op)) {
    return error(errc::bad_input, fmt::format("{}: undefined type {} or operation {}", call,
                                              static_cast<int>(type), static_cast<int>(what.op)));
  }
  if (!is_defined(type, what.op)) {
    return error(errc::bad_input, fmt::format("{}: no {} of {}", call, name(what.op), name(type)),
                 "use an integer type for bitwise operations");
  }
  if (what.op == reduce_op::premultiplied_sum && !is_factor(type, what.factor)) {
    return error(errc::bad_input,
                 fmt::format("{}: factor {} is not valid for {}", call, what.factor, name(type)),
                 "pass an integer in the type's range for integer types, else a float32 value");
  }
  if (data.bytes % element_bytes != 0) {
    return error(errc::bad_input,
                 fmt::format("{}: {} bytes is not a multiple of {}", call, data.bytes, name(type)));
  }
  if (reinterpret_cast<std::uintptr_t>(data.data) % element_bytes != 0) {
    return error(errc::bad_input,
                 fmt::format("{}: the data are not aligned to {} bytes", call, element_bytes));
  }
  return std::nullopt;
}

}  // namespace

std::optional<error> check_elements(const call_backend& by, const char* call,
                                    const const_view& data, data_type type, reduction what) {
  if (auto wrong = check_memory(by, call, data)) return wrong;
  if (auto wrong = check_reduction(call, data, type, what)) return wrong;
  if (data.kind == memory_kind::host || data.bytes == 0) return std::nullopt;
  if (by.channels == nullptr) return std::nullopt;
  // Compiled here, so that a machine without a kernel compiler fails before anything is sent.
  return error_from(call, [&] { by.channels->queue_for(data)->prepare(type); });
}

std::optional<error> check_algorithm(collective what, algorithm how) {
  if (is_defined(what, how)) return std::nullopt;
  return error(errc::bad_input, fmt::format("{}: no algorithm {}", name(what), name(how)),
               fmt::format("choose {}", fmt::join(algorithm_names(what), ", ")));
}

std::optional<error> check_equal_blocks(const group& g, const char* call, const const_view& all,
                                        const const_view& block) {
  const std::size_t needed = block.bytes * static_cast<std::size_t>(g.size());
  if (all.bytes == needed) return std::nullopt;
  return error(errc::bad_input, fmt::format("{}: {} ranks with {} bytes each need {} bytes, not {}",
                                            call, g.size(), block.bytes, needed, all.bytes));
}

namespace {

std::optional<error> check_length_count(const group& g, const char* call,
                                        std::span<const std::size_t> bytes_of_rank) {
  if (bytes_of_rank.size() == static_cast<std::size_t>(g.size())) return std::nullopt;
  return error(errc::bad_input,
               fmt::format("{}: {} lengths for {} ranks", call, bytes_of_rank.size(), g.size()));
}

}  // namespace

std::optional<error> check_lengths(const group& g, const char* call, const const_view& all,
                                   std::span<const std::size_t> bytes_of_rank) {
  if (auto wrong = check_length_count(g, call, bytes_of_rank)) return wrong;
  // Subtracted from the total, because a sum of the lengths could wrap around.
  std::size_t left = all.bytes;
  for (const std::size_t bytes : bytes_of_rank) {
    if (bytes > left) {
      return error(errc::bad_input,
                   fmt::format("{}: the lengths exceed the {} bytes of the view", call, all.bytes));
    }
    left -= bytes;
  }
  if (left == 0) return std::nullopt;
  return error(errc::bad_input,
               fmt::format("{}: the lengths leave {} of {} bytes unused", call, left, all.bytes));
}

std::optional<error> check_block(const group& g, const char* call, const const_view& block,
                                 std::span<const std::size_t> bytes_of_rank) {
  if (auto wrong = check_length_count(g, call, bytes_of_rank)) return wrong;
  const std::size_t listed = bytes_of_rank[static_cast<std::size_t>(g.rank())];
  if (listed == block.bytes) return std::nullopt;
  return error(errc::bad_input, fmt::format("{}: this rank's block has {} bytes, listed are {}",
                                            call, block.bytes, listed));
}

std::optional<error> check_block_position(const char* call, const const_view& block,
                                          const const_view& all, extent expected) {
  if (auto wrong = check_same_memory(call, block, all)) return wrong;
  if (block.bytes == 0 || block.data == all.part(expected.offset, expected.bytes).data) {
    return std::nullopt;
  }
  return check_overlap(call, block, all);
}

error mixed_memory(const char* call, const const_view& one, const const_view& other) {
  return error(errc::unsupported_memory,
               fmt::format("{}: the views are in {} and {} memory, on devices {} and {}", call,
                           name(one.kind), name(other.kind), one.device, other.device),
               "pass views of one device, or of host memory; other ranks may use other memory");
}

error overlapping_views(const char* call) {
  return error(errc::bad_input, fmt::format("{}: the views overlap", call),
               "pass views that do not overlap, or the same address for in place");
}

std::optional<error> check_result(const char* call, const const_view& data,
                                  const const_view& result) {
  if (data.bytes != result.bytes) {
    return error(errc::bad_input,
                 fmt::format("{}: {} bytes of data, {} of result", call, data.bytes, result.bytes));
  }
  if (auto wrong = check_same_memory(call, data, result)) return wrong;
  return check_overlap(call, data, result);
}

std::optional<error> check_separate_views(const char* call, const const_view& from,
                                          const const_view& into) {
  if (auto wrong = check_same_memory(call, from, into)) return wrong;
  if (from.bytes == 0 || into.bytes == 0) return std::nullopt;
  if (from.data != into.data) return check_overlap(call, from, into);
  return error(errc::bad_input, fmt::format("{}: not in place", call), "pass another output view");
}

asio::awaitable<void> refuse_elements(std::string_view call, data_type elements, data_type named) {
  return refuse(
      error(errc::bad_input,
            fmt::format("{}: the call says {}, but the elements are {}", call, name(named),
                        name(elements)),
            "leave the type out, and the elements say it; or pass unsigned integers or a view"));
}

}  // namespace detail
}  // namespace tandem
