#include <cstring>

#include "islands/vendor_group.hpp"
#include "reduce/reducer.hpp"

namespace tandem::detail {
namespace {

/// The bytes of the value 1 in that type.
std::array<std::byte, 8> one_of(data_type type) {
  std::uint64_t bits = 0;
  switch (type) {
    case data_type::float64:
      bits = 0x3ff0'0000'0000'0000;
      break;
    case data_type::float16:
      bits = 0x3c00;
      break;
    case data_type::bfloat16:
      bits = 0x3f80;
      break;
    case data_type::float8_e4m3:
      bits = 0x38;
      break;
    case data_type::float8_e5m2:
      bits = 0x3c;
      break;
    case data_type::float32:
      bits = 0x3f80'0000;
      break;
    default:
      bits = 1;
  }
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &bits, sizeof bits);  // all supported processors are little-endian
  return bytes;
}

}  // namespace

std::optional<int> vendor_type(data_type type, int version) noexcept {
  constexpr int has_float8 = 22400;
  switch (type) {
    case data_type::float32:
      return nc::float32;
    case data_type::float64:
      return nc::float64;
    case data_type::float16:
      return nc::float16;
    case data_type::bfloat16:
      return nc::bfloat16;
    case data_type::int8:
      return nc::int8;
    case data_type::uint8:
      return nc::uint8;
    case data_type::int32:
      return nc::int32;
    case data_type::uint32:
      return nc::uint32;
    case data_type::int64:
      return nc::int64;
    case data_type::uint64:
      return nc::uint64;
    case data_type::float8_e4m3:
      if (version >= has_float8) return nc::float8_e4m3;
      return std::nullopt;
    case data_type::float8_e5m2:
      if (version >= has_float8) return nc::float8_e5m2;
      return std::nullopt;
    case data_type::int16:
    case data_type::uint16:
      break;
  }
  return std::nullopt;
}

std::optional<int> vendor_op(reduce_op op, data_type type) noexcept {
  const bool is_integer = is_defined(type, reduce_op::band);
  switch (op) {
    case reduce_op::sum:
      return nc::sum;
    case reduce_op::product:
      return nc::product;
    case reduce_op::minimum:
      if (is_integer) return nc::minimum;
      return std::nullopt;
    case reduce_op::maximum:
      if (is_integer) return nc::maximum;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

int vendor_group::make_factor(double factor, data_type type, int vendor) {
  // Rounded as the host's reduction rounds it.
  std::array<std::byte, 8> bytes = one_of(type);
  throw_if_failed();
  const reducer by(type, premultiplied_sum(factor), size_);
  by.prepare(mutable_view(bytes.data(), by.element_bytes()));
  int op = 0;
  check_status(
      lib_.make_premultiplied_sum(&op, bytes.data(), vendor, nc::scalar_in_host_memory, comm_),
      "ncclRedOpCreatePreMulSum");
  return op;
}

void vendor_group::free_op(int op) noexcept {
  if (comm_ != nullptr) lib_.free_op(op, comm_);
}

vendor_reduction::vendor_reduction(vendor_group& by, int version, data_type element, reduction what)
    : by_(by), type(vendor_type(element, version).value()) {
  if (what.op == reduce_op::premultiplied_sum) {
    op = by_.make_factor(what.factor, element, type);
    has_made_ = true;
  } else {
    op = what.op == reduce_op::average ? nc::average : vendor_op(what.op, element).value();
  }
}

vendor_reduction::~vendor_reduction() {
  if (has_made_) by_.free_op(op);
}

}  // namespace tandem::detail
