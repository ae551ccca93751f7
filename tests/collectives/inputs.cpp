#include "collectives/inputs.hpp"

namespace tandem::test {

std::vector<element> elements_of(data_type type, int rank, std::size_t count) {
  std::vector<element> elements = random_elements(type, count, static_cast<unsigned>(rank) + 1);
  if (is_integer(type)) return elements;
  const element one = type == data_type::float64   ? element{0x3ff} << 52
                      : type == data_type::float32 ? 0x3f800000
                                                   : slow_nearest(type, 1);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 8 != 0) elements[i] = one + elements[i] % (one / 8);
  }
  return elements;
}

double scale_of_average(int ranks) {
  double scale = 0.5;
  while (ranks > 2 && scale * 2 * ranks > 1) scale /= 2;
  return scale;
}

std::vector<std::vector<element>> prepared(data_type type, reduce_op op,
                                           std::vector<std::vector<element>> inputs) {
  const bool scales = op == reduce_op::average && !is_integer(type) && inputs.size() > 1;
  if (op != reduce_op::premultiplied_sum && !scales) return inputs;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    const double factor =
        scales ? scale_of_average(static_cast<int>(inputs.size())) : factor_of(static_cast<int>(r));
    for (element& e : inputs[r]) e = slow_multiply(type, e, factor);
  }
  return inputs;
}

element finished(data_type type, reduce_op op, element combined, int ranks) {
  if (op != reduce_op::average || ranks == 1) return combined;
  return slow_divide(type, combined, is_integer(type) ? ranks : ranks * scale_of_average(ranks));
}

}  // namespace tandem::test
