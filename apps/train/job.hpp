#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data.hpp"
#include "layout.hpp"
#include "model/config.hpp"
#include "options.hpp"

namespace tandem::train {

/// What shall be trained, by whom, on what: options that were found to fit together, and the text.
struct job {
  options wanted;
  model_config model;
  std::shared_ptr<const corpus> text;
  layout who;
  /// Replicas whose work one rank does in turn, adding up gradients as the replicas would.
  int turns = 1;

  int sequence() const { return wanted.sequence > 0 ? wanted.sequence : model.sequence_length; }
  /// Sequences of a micro-batch.
  int sequences() const { return wanted.batch / (who.replicas() * turns * wanted.micro_batches); }
  std::int64_t tokens_per_step() const { return std::int64_t{wanted.batch} * sequence(); }
};

/// Reads the text and checks everything that can be known before a rank starts.
/// @param job_ranks  ranks that a launcher started; 0: not yet started
/// @par Errors `errc::bad_option`, `errc::bad_input`.
job prepare(const options& wanted, int job_ranks);

/// The same training in one process: the same batches in the same micro-batches. Floating-point
/// sums depend on their order, and a training amplifies the last bit a hundredfold every few
/// hundred steps; so one process adds up each replica's micro-batches first, then the replicas.
job alone(const job& together);

/// What all ranks must agree on, as names and values.
using plan = std::vector<std::pair<std::string, std::string>>;
plan plan_of(const job& agreed);
/// One line of text for the rendezvous, and back. `plan_from` takes any text and keeps what it can
/// read.
std::string to_text(const plan& agreed);
plan plan_from(std::string_view text);
/// How two plans differ, in words that name both ranks; empty where they are the same.
std::string difference(const plan& mine, int my_rank, const plan& theirs, int their_rank);

}  // namespace tandem::train
