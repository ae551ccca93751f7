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

/// A training job: options that were checked against each other, the model, the text, the layout.
struct job {
  options wanted;
  model_config model;
  std::shared_ptr<const corpus> text;
  layout who;
  /// Replicas that one rank computes one after the other, summing gradients in the replicas' order.
  int turns = 1;

  int sequence() const { return wanted.sequence > 0 ? wanted.sequence : model.sequence_length; }
  /// Sequences per micro-batch.
  int sequences() const { return wanted.batch / (who.replicas() * turns * wanted.micro_batches); }
  std::int64_t tokens_per_step() const { return std::int64_t{wanted.batch} * sequence(); }
};

/// Reads the text and checks everything that can be checked before a rank starts.
/// @param job_ranks  ranks started by a launcher; 0: not started yet
/// @par Errors `errc::bad_option`, `errc::bad_input`.
job prepare(const options& wanted, int job_ranks);

/// The same training in one process: the same batches in the same micro-batches. Floating-point
/// sums depend on their order, and training amplifies a difference in the last bit a hundredfold
/// every few hundred steps; so one process sums each replica's micro-batches first, then the
/// replicas.
job alone(const job& together);

/// The settings that must be equal on all ranks, as names and values.
using plan = std::vector<std::pair<std::string, std::string>>;
plan plan_of(const job& agreed);
/// Text for the rendezvous store, one line per setting, and back. `plan_from` accepts any text and
/// ignores lines it cannot parse.
std::string to_text(const plan& agreed);
plan plan_from(std::string_view text);
/// Describes the differences of two configurations, naming both ranks; empty where they are equal.
std::string difference(const plan& mine, int my_rank, const plan& theirs, int their_rank);

}  // namespace tandem::train
