#include "call_record.hpp"

#include <fmt/format.h>

#include <string_view>

namespace tandem::detail {
namespace {

std::string_view way(algorithm how) noexcept {
  if (how == by_islands) return "islands";
  return how == by_channels ? "channels" : name(how);
}

}  // namespace

std::uint64_t call_record::field(unsigned shift, unsigned width) const noexcept {
  return bits_ >> shift & ((std::uint64_t{1} << width) - 1);
}

const char* call_record::name() const noexcept {
  return tandem::name(static_cast<collective>(field(what_shift, 4) - 1)).data();
}

bool call_record::needs_all_ranks() const noexcept {
  return field(what_shift, 4) != 0 && field(root_shift, 12) == 0;
}

std::string call_record::text() const {
  if (field(what_shift, 4) == 0) return "no collective";
  std::string text = name();
  const std::uint64_t bytes = field(0, root_shift);
  if (bytes > 0) text += fmt::format(" of {} bytes", bytes);
  if (const std::uint64_t root = field(root_shift, 12)) {
    text += fmt::format(" with root {}", root - 1);
  }
  text += fmt::format(" ({}", way(static_cast<algorithm>(field(how_shift, 4) - 1)));
  if (const std::uint64_t type = field(type_shift, 4)) {
    text += fmt::format(", {}", tandem::name(static_cast<data_type>(type - 1)));
  }
  if (const std::uint64_t op = field(op_shift, 4)) {
    text += fmt::format(", {}", tandem::name(static_cast<reduce_op>(op - 1)));
  }
  return text + ")";
}

std::uint64_t call_record::bytes() const noexcept {
  return field(0, root_shift);
}

}  // namespace tandem::detail
