#pragma once

#include <numeric>

#include "backend.hpp"

namespace tandem::torch_backend {

inline work_ptr backend::gather(std::vector<tensors>& outputs, tensors& inputs,
                                const c10d::GatherOptions& opts) {
  const Tensor& input = only_one("gather", inputs);
  const bool is_root = opts.rootRank == getRank();
  TORCH_CHECK_VALUE(
      outputs.size() == (is_root ? 1u : 0u), "tandem: gather: expected ",
      is_root ? "one list of outputs at the root" : "no outputs at other ranks than the root");
  auto made = make(OpType::GATHER, "gather", inputs, is_root ? outputs.front() : tensors(),
                   {.peer = opts.rootRank});
  const Tensor from = input_of(*made, input);
  tandem_buffer all{nullptr, 0, TANDEM_HOST, 0};
  if (is_root) {
    const tensors& list = outputs.front();
    check_list("gather", list);
    check_same_type("gather", list.front(), input);
    TORCH_CHECK_VALUE(are_equally_long(list) && list.front().numel() == input.numel(),
                      "tandem: gather: inputs and outputs differ in size");
    const Tensor into = joined_memory(list);
    made->keep(into);
    made->after([into, list] { distribute(into, list); });
    all = buffer_of(into);
  }
  start(*made, options_of(opts), tandem_gather, buffer_of(from), all, nullptr,
        static_cast<std::int32_t>(opts.rootRank));
  return give(made);
}

inline work_ptr backend::scatter(tensors& outputs, std::vector<tensors>& inputs,
                                 const c10d::ScatterOptions& opts) {
  const Tensor& output = only_one("scatter", outputs);
  const bool is_root = opts.rootRank == getRank();
  TORCH_CHECK_VALUE(
      inputs.size() == (is_root ? 1u : 0u), "tandem: scatter: expected ",
      is_root ? "one list of inputs at the root" : "no inputs at other ranks than the root");
  auto made = make(OpType::SCATTER, "scatter", is_root ? inputs.front() : tensors(), outputs,
                   {.peer = opts.rootRank});
  const Tensor into = output_of(*made, output);
  tandem_buffer all{nullptr, 0, TANDEM_HOST, 0};
  if (is_root) {
    const tensors& list = inputs.front();
    check_list("scatter", list);
    check_same_type("scatter", list.front(), output);
    TORCH_CHECK_VALUE(are_equally_long(list) && list.front().numel() == output.numel(),
                      "tandem: scatter: inputs and output differ in size");
    const Tensor from = joined(list);
    made->keep(from);
    all = buffer_of(from);
  }
  start(*made, options_of(opts), tandem_scatter, all, buffer_of(into), nullptr,
        static_cast<std::int32_t>(opts.rootRank));
  return give(made);
}

inline work_ptr backend::reduce_scatter(tensors& outputs, std::vector<tensors>& inputs,
                                        const c10d::ReduceScatterOptions& opts) {
  const Tensor& output = only_one("reduce_scatter", outputs);
  TORCH_CHECK_VALUE(inputs.size() == 1, "tandem: reduce_scatter: expected one list of inputs");
  const tensors& list = inputs.front();
  check_list("reduce_scatter", list);
  check_same_type("reduce_scatter", list.front(), output);
  TORCH_CHECK_VALUE(list[static_cast<std::size_t>(getRank())].numel() == output.numel(),
                    "tandem: reduce_scatter: the output has ", output.numel(),
                    " elements, the input for this rank ",
                    list[static_cast<std::size_t>(getRank())].numel());
  const tandem_reduction how = reduction_of(opts.reduceOp, output);
  auto made = make(OpType::REDUCE_SCATTER, "reduce_scatter", list, outputs);
  const Tensor from = joined(list);
  const Tensor into = output_of(*made, output);
  made->keep(from);
  made->keep(list);
  const std::vector<std::size_t> lengths = lengths_of(list);
  start(*made, options_of(opts), tandem_reduce_scatter, buffer_of(from), buffer_of(into),
        are_equally_long(list) ? nullptr : lengths.data(), how);
  return give(made);
}

inline void backend::start_reduce_scatter_base(work& into, const Tensor& output,
                                               const Tensor& input, const c10d::ReduceOp& op,
                                               const call_options& options) {
  check_tensor("reduce_scatter_tensor", output);
  check_tensor("reduce_scatter_tensor", input);
  check_same_type("reduce_scatter_tensor", output, input);
  TORCH_CHECK_VALUE(input.numel() == output.numel() * getSize(),
                    "tandem: reduce_scatter_tensor: the input has ", input.numel(),
                    " elements, expected ", getSize(), " times the output's ", output.numel());
  const tandem_reduction how = reduction_of(op, output);
  const Tensor from = input_of(into, input);
  const Tensor result = output_of(into, output);
  start(into, options, tandem_reduce_scatter, buffer_of(from), buffer_of(result), nullptr, how);
}

inline work_ptr backend::_reduce_scatter_base(Tensor& output, Tensor& input,
                                              const c10d::ReduceScatterOptions& opts) {
  auto made = make(OpType::_REDUCE_SCATTER_BASE, "reduce_scatter", {input}, {output});
  start_reduce_scatter_base(*made, output, input, opts.reduceOp, options_of(opts));
  return give(made);
}

inline work_ptr backend::reduce_scatter_tensor_coalesced(tensors& outputs, tensors& inputs,
                                                         const c10d::ReduceScatterOptions& opts) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(),
                    "tandem: reduce_scatter_tensor_coalesced: ", outputs.size(), " outputs for ",
                    inputs.size(), " inputs");
  auto made = make(OpType::COALESCED, "reduce_scatter", inputs, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    start_reduce_scatter_base(*made, outputs[i], inputs[i], opts.reduceOp, options_of(opts));
  }
  return give(made);
}

/// Lengths in bytes of blocks of the first dimension.
inline std::vector<std::size_t> split_lengths(const char* which,
                                              const std::vector<std::int64_t>& splits,
                                              const Tensor& of, std::size_t ranks) {
  const std::int64_t rows = of.dim() == 0 ? of.numel() : of.size(0);
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % static_cast<std::int64_t>(ranks) == 0,
                      "tandem: all_to_all_single: the ", which, "'s first dimension, ", rows,
                      ", is not divisible by ", ranks, " ranks");
    return std::vector<std::size_t>(ranks, of.nbytes() / ranks);
  }
  TORCH_CHECK_VALUE(splits.size() == ranks, "tandem: all_to_all_single: ", splits.size(), " ",
                    which, " splits, expected one for each of ", ranks, " ranks");
  const std::int64_t sum = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
  TORCH_CHECK_VALUE(sum == rows, "tandem: all_to_all_single: the ", which, " splits add up to ",
                    sum, ", its first dimension is ", rows);
  const std::size_t row_bytes = rows == 0 ? 0 : of.nbytes() / static_cast<std::size_t>(rows);
  std::vector<std::size_t> bytes;
  for (const std::int64_t split : splits)
    bytes.push_back(static_cast<std::size_t>(split) * row_bytes);
  return bytes;
}

inline work_ptr backend::alltoall_base(Tensor& output, Tensor& input,
                                       std::vector<std::int64_t>& output_splits,
                                       std::vector<std::int64_t>& input_splits,
                                       const c10d::AllToAllOptions& opts) {
  check_tensor("all_to_all_single", output);
  check_tensor("all_to_all_single", input);
  check_same_type("all_to_all_single", output, input);
  auto made = make(OpType::ALLTOALL_BASE, "all_to_all", {input}, {output},
                   {.input_splits = &input_splits, .output_splits = &output_splits});
  const Tensor from = input_of(*made, input);
  const Tensor into = output_of(*made, output);
  const std::vector<std::size_t> received = split_lengths("output", output_splits, output, ranks());
  const std::vector<std::size_t> sent = split_lengths("input", input_splits, input, ranks());
  const bool is_equal = output_splits.empty() && input_splits.empty();
  start(*made, options_of(opts), tandem_all_to_all, buffer_of(from),
        is_equal ? nullptr : sent.data(), buffer_of(into), is_equal ? nullptr : received.data());
  return give(made);
}

inline work_ptr backend::alltoall(tensors& outputs, tensors& inputs,
                                  const c10d::AllToAllOptions& opts) {
  check_list("all_to_all", outputs);
  check_list("all_to_all", inputs);
  check_same_type("all_to_all", outputs.front(), inputs.front());
  auto made = make(OpType::ALLTOALL, "all_to_all", inputs, outputs);
  const Tensor from = joined(inputs);
  const Tensor into = joined_memory(outputs);
  made->keep({from, into});
  made->keep(inputs);
  made->after([into, list = outputs] { distribute(into, list); });
  const std::vector<std::size_t> sent = lengths_of(inputs);
  const std::vector<std::size_t> received = lengths_of(outputs);
  start(*made, options_of(opts), tandem_all_to_all, buffer_of(from), sent.data(), buffer_of(into),
        received.data());
  return give(made);
}

}  // namespace tandem::torch_backend
