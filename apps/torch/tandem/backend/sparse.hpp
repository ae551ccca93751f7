#pragma once

#include <ATen/ATen.h>
#include <tandem.h>

#include <vector>

#include "tensors.hpp"

namespace tandem::torch_backend {

/// The blocks of all ranks, which may differ in length. Blocks the caller.
inline Tensor gather_now(tandem_comm* among, const Tensor& mine,
                         const std::vector<std::int64_t>& elements_of_rank,
                         const tandem_call& call) {
  std::vector<std::size_t> bytes;
  std::int64_t all_elements = 0;
  for (const std::int64_t elements : elements_of_rank) {
    bytes.push_back(bytes_of(elements, mine));
    all_elements += elements;
  }
  const Tensor all = at::empty({all_elements}, mine.options());
  tandem_op* op = nullptr;
  tandem_error error = TANDEM_ERROR_INIT;
  check(tandem_all_gather(among, buffer_of(mine), buffer_of(all), bytes.data(), &call, &op, &error),
        error);
  const tandem_status status = tandem_op_wait(op, -1, &error);
  tandem_op_release(op);
  check(status, error);
  return all;
}

/// Replaces a sparse tensor by the sum of all ranks' tensors, of which each may have other
/// elements: gathers them and adds them up on every rank, as gloo does. Blocks the caller.
inline void sparse_all_reduce(tandem_comm* among, Tensor& data, const tandem_call& call) {
  const auto ranks = static_cast<std::size_t>(tandem_comm_size(among));
  const Tensor mine = data.coalesce();
  const Tensor count = at::full({1}, mine._nnz(), at::kLong);
  const Tensor counts = gather_now(among, count, std::vector<std::int64_t>(ranks, 1), call);
  std::vector<std::int64_t> indices_of_rank;
  std::vector<std::int64_t> values_of_rank;
  const std::int64_t dimensions = mine.sparse_dim();
  std::vector<std::int64_t> value_sizes = mine._values().sizes().vec();
  value_sizes[0] = 1;
  const std::int64_t each = c10::multiply_integers(value_sizes);
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::int64_t of_rank = counts.data_ptr<std::int64_t>()[r];
    indices_of_rank.push_back(of_rank * dimensions);
    values_of_rank.push_back(of_rank * each);
  }
  const Tensor my_indices = mine._indices().t().contiguous().view({-1});
  const Tensor indices = gather_now(among, my_indices, indices_of_rank, call);
  const Tensor my_values = mine._values().contiguous().view({-1});
  const Tensor values = gather_now(among, my_values, values_of_rank, call);
  value_sizes[0] = -1;
  if (indices.numel() == 0) return;
  const Tensor sum = at::sparse_coo_tensor(indices.view({-1, dimensions}).t(),
                                           values.view(value_sizes), data.sizes());
  data.copy_(sum.coalesce());
}

}  // namespace tandem::torch_backend
