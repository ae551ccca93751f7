#pragma once

#include "backend.hpp"
#include "sparse.hpp"

namespace tandem::torch_backend {

inline void backend::check_list(const char* call, const tensors& all) const {
  TORCH_CHECK_VALUE(all.size() == ranks(), "tandem: ", call, ": ", all.size(),
                    " tensors, expected one for each of ", getSize(), " ranks");
  for (const Tensor& t : all) {
    check_tensor(call, t);
    check_same_type(call, t, all.front());
  }
}

inline work_ptr backend::endCoalescing() {
  TORCH_CHECK(coalesced_, "tandem: endCoalescing without startCoalescing");
  batch together = std::move(*coalesced_);
  coalesced_.reset();
  together.launch();
  auto all =
      c10::make_intrusive<work>(getRank(), OpType::COALESCED, "coalesced", tensors(), tensors());
  for (const auto& part : together.parts) all->add(part);
  all->observed().begin_batch_end(observed());
  return all;
}

inline work_ptr backend::broadcast(tensors& data, const c10d::BroadcastOptions& opts) {
  const Tensor& t = only_one("broadcast", data);
  auto made = make(OpType::BROADCAST, "broadcast", data, data, {.peer = opts.rootRank});
  const Tensor used = in_place_of(*made, t);
  start(*made, options_of(opts), tandem_broadcast, buffer_of(used),
        static_cast<std::int32_t>(opts.rootRank));
  return give(made);
}

inline void backend::start_all_reduce(work& into, const Tensor& data, const c10d::ReduceOp& op,
                                      const call_options& options) {
  const tandem_reduction how = reduction_of(op, data);
  const Tensor used = in_place_of(into, data);
  start(into, options, tandem_all_reduce, buffer_of(used), buffer_of(used), how);
}

inline work_ptr backend::allreduce(tensors& data, const c10d::AllreduceOptions& opts) {
  if (data.size() == 1 && data.front().is_sparse()) {
    TORCH_CHECK_VALUE(opts.reduceOp == c10d::ReduceOp::SUM,
                      "tandem: all_reduce: sparse tensors have sums only");
    auto made = make(OpType::_ALLREDUCE_SPARSE, "sparse_all_reduce", data, data);
    const tandem_call call = call_for(opts.timeout);
    const observed_scope scope = made->observed().begin(call.timeout_ms);
    sparse_all_reduce(comm(), data.front(), call);
    return give(made);
  }
  const Tensor& t = only_one("all_reduce", data);
  auto made = make(OpType::ALLREDUCE, "all_reduce", data, data);
  start_all_reduce(*made, t, opts.reduceOp, options_of(opts));
  return give(made);
}

inline work_ptr backend::allreduce_coalesced(tensors& data,
                                             const c10d::AllreduceCoalescedOptions& opts) {
  for (const Tensor& t : data) check_tensor("all_reduce_coalesced", t);
  auto made = make(OpType::ALLREDUCE_COALESCED, "all_reduce", data, data);
  for (const Tensor& t : data) start_all_reduce(*made, t, opts.reduceOp, options_of(opts));
  return give(made);
}

inline work_ptr backend::reduce(tensors& data, const c10d::ReduceOptions& opts) {
  const Tensor& t = only_one("reduce", data);
  const tandem_reduction how = reduction_of(opts.reduceOp, t);
  auto made = make(OpType::REDUCE, "reduce", data, data, {.peer = opts.rootRank});
  const bool is_root = opts.rootRank == getRank();
  const Tensor used = is_root ? in_place_of(*made, t) : input_of(*made, t);
  start(*made, options_of(opts), tandem_reduce, buffer_of(used), buffer_of(used), how,
        static_cast<std::int32_t>(opts.rootRank));
  return give(made);
}

inline void backend::start_all_gather(work& into, const tensors& outputs, const Tensor& input,
                                      const call_options& options) {
  check_list("all_gather", outputs);
  check_tensor("all_gather", input);
  check_same_type("all_gather", outputs.front(), input);
  const Tensor& mine = outputs[static_cast<std::size_t>(getRank())];
  TORCH_CHECK_VALUE(mine.numel() == input.numel(), "tandem: all_gather: the input has ",
                    input.numel(), " elements, the output for this rank ", mine.numel());
  const Tensor from = input_of(into, input);
  const Tensor all = joined_memory(outputs);
  into.keep(all);
  into.after([all, outputs] { distribute(all, outputs); });
  const std::vector<std::size_t> lengths = lengths_of(outputs);
  start(into, options, tandem_all_gather, buffer_of(from), buffer_of(all),
        are_equally_long(outputs) ? nullptr : lengths.data());
}

inline work_ptr backend::allgather(std::vector<tensors>& outputs, tensors& inputs,
                                   const c10d::AllgatherOptions& opts) {
  const Tensor& input = only_one("all_gather", inputs);
  TORCH_CHECK_VALUE(outputs.size() == 1, "tandem: all_gather: expected one list of outputs");
  auto made = make(OpType::ALLGATHER, "all_gather", inputs, outputs.front());
  start_all_gather(*made, outputs.front(), input, options_of(opts));
  return give(made);
}

inline work_ptr backend::allgather_coalesced(std::vector<tensors>& outputs, tensors& inputs,
                                             const c10d::AllgatherOptions& opts) {
  TORCH_CHECK_VALUE(outputs.size() == ranks(), "tandem: all_gather_coalesced: ", outputs.size(),
                    " lists of outputs, expected one for each of ", getSize(), " ranks");
  tensors flat;
  for (const tensors& of_rank : outputs) {
    TORCH_CHECK_VALUE(of_rank.size() == inputs.size(), "tandem: all_gather_coalesced: a list of ",
                      of_rank.size(), " outputs for ", inputs.size(), " inputs");
    flat.insert(flat.end(), of_rank.begin(), of_rank.end());
  }
  auto made = make(OpType::ALLGATHER_COALESCED, "all_gather", inputs, std::move(flat));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    tensors of_input;
    for (const tensors& of_rank : outputs) of_input.push_back(of_rank[i]);
    start_all_gather(*made, of_input, inputs[i], options_of(opts));
  }
  return give(made);
}

inline void backend::start_all_gather_base(work& into, const Tensor& output, const Tensor& input,
                                           const call_options& options) {
  check_tensor("all_gather_into_tensor", output);
  check_tensor("all_gather_into_tensor", input);
  check_same_type("all_gather_into_tensor", output, input);
  TORCH_CHECK_VALUE(output.numel() == input.numel() * getSize(),
                    "tandem: all_gather_into_tensor: the output has ", output.numel(),
                    " elements, expected ", getSize(), " times the input's ", input.numel());
  const Tensor from = input_of(into, input);
  const Tensor all = output_of(into, output);
  start(into, options, tandem_all_gather, buffer_of(from), buffer_of(all), nullptr);
}

inline work_ptr backend::_allgather_base(Tensor& output, Tensor& input,
                                         const c10d::AllgatherOptions& opts) {
  auto made = make(OpType::_ALLGATHER_BASE, "all_gather", {input}, {output});
  start_all_gather_base(*made, output, input, options_of(opts));
  return give(made);
}

inline work_ptr backend::allgather_into_tensor_coalesced(tensors& outputs, tensors& inputs,
                                                         const c10d::AllgatherOptions& opts) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(),
                    "tandem: all_gather_into_tensor_coalesced: ", outputs.size(), " outputs for ",
                    inputs.size(), " inputs");
  auto made = make(OpType::COALESCED, "all_gather", inputs, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    start_all_gather_base(*made, outputs[i], inputs[i], options_of(opts));
  return give(made);
}

}  // namespace tandem::torch_backend
