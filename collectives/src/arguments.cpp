#include "arguments.hpp"

#include <fmt/format.h>

namespace tandem {

std::size_t bytes_of(data_type type) noexcept {
  switch (type) {
    case data_type::float32:
    case data_type::int32:
      return 4;
    case data_type::float64:
    case data_type::int64:
      return 8;
  }
  return 0;
}

std::string_view name(data_type type) noexcept {
  switch (type) {
    case data_type::float32:
      return "float32";
    case data_type::float64:
      return "float64";
    case data_type::int32:
      return "int32";
    case data_type::int64:
      return "int64";
  }
  return "no type";
}

std::string_view name(reduce_op op) noexcept {
  switch (op) {
    case reduce_op::sum:
      return "sum";
    case reduce_op::product:
      return "product";
    case reduce_op::minimum:
      return "minimum";
    case reduce_op::maximum:
      return "maximum";
  }
  return "no operation";
}

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
                                    reduce_op op) {
  const std::size_t element_bytes = bytes_of(type);
  if (element_bytes == 0 || op > reduce_op::maximum) {
    return error(errc::bad_input, fmt::format("{}: type {}, operation {}", call,
                                              static_cast<int>(type), static_cast<int>(op)));
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
