#include "arguments.hpp"

#include <fmt/format.h>

#include "reduce/reducer.hpp"

namespace tandem {

std::string_view name(all_reduce_algorithm how) noexcept {
  switch (how) {
    case all_reduce_algorithm::automatic:
      return "automatic";
    case all_reduce_algorithm::ring:
      return "ring";
    case all_reduce_algorithm::recursive_doubling:
      return "recursive_doubling";
  }
  return "no algorithm";
}

namespace detail {

std::optional<error> wrong_root(const group& g, const char* call, int root) {
  if (root >= 0 && root < g.size()) return std::nullopt;
  return error(errc::bad_input,
               fmt::format("{}: root {} is not in a group of {}", call, root, g.size()));
}

std::optional<error> wrong_memory(const char* call, const const_view& data) {
  if (data.bytes == 0) return std::nullopt;
  if (data.kind != memory_kind::host) {
    return error(errc::unsupported_memory,
                 fmt::format("{}: host memory only, not {}", call, name(data.kind)));
  }
  if (data.data != nullptr) return std::nullopt;
  return error(errc::bad_input, fmt::format("{}: {} bytes at no address", call, data.bytes));
}

std::optional<error> wrong_elements(const char* call, const const_view& data, data_type type,
                                    reduction what) {
  const std::size_t element_bytes = bytes_of(type);
  if (element_bytes == 0 || !is_defined(data_type::int8, what.op)) {
    return error(errc::bad_input, fmt::format("{}: type {}, operation {}", call,
                                              static_cast<int>(type), static_cast<int>(what.op)));
  }
  if (!is_defined(type, what.op)) {
    return error(errc::bad_input, fmt::format("{}: no {} of {}", call, name(what.op), name(type)),
                 "combine bits as integers");
  }
  if (what.op == reduce_op::premultiplied_sum && !is_factor(type, what.factor)) {
    return error(errc::bad_input,
                 fmt::format("{}: factor {} is no {}", call, what.factor, name(type)),
                 "give integers a whole number that they hold, others one that a float32 holds");
  }
  if (data.bytes % element_bytes != 0) {
    return error(errc::bad_input, fmt::format("{}: {} bytes are no whole number of {}", call,
                                              data.bytes, name(type)));
  }
  if (reinterpret_cast<std::uintptr_t>(data.data) % element_bytes == 0) return std::nullopt;
  return error(errc::bad_input,
               fmt::format("{}: the data are not aligned to {} bytes", call, element_bytes));
}

}  // namespace detail
}  // namespace tandem
