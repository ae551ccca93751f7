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

/// From a step on, counted from 0, the job has so many replicas.
struct replica_change {
  int step = 0;
  int replicas = 1;
};

/// A training job: options that were checked against each other, the model, the text, the layout.
struct job {
  options requested;
  model_config model;
  std::shared_ptr<const corpus> text;
  layout who;
  /// Replicas that one rank computes one after the other, summing gradients in the replicas' order.
  int serial_replicas = 1;
  std::vector<replica_change> changes = {};  ///< of `serial_replicas`, by step

  int sequence() const {
    return requested.sequence > 0 ? requested.sequence : model.sequence_length;
  }
  /// Sequences per micro-batch.
  int sequences() const {
    return requested.batch / (who.replicas() * serial_replicas * requested.micro_batches);
  }
  pipeline_kind schedule_kind() const { return find_pipeline_kind(requested.schedule); }
  int serial_replicas_at(int step) const;
  std::int64_t tokens_at(int step) const {
    return std::int64_t{who.replicas() * serial_replicas_at(step)} * requested.micro_batches *
           sequences() * sequence();
  }
};

/// Reads the text and checks everything that can be checked before a rank starts.
/// @param job_ranks  ranks started by a launcher; 0: not started yet
/// @par Errors `errc::bad_option`, `errc::bad_input`.
job prepare(const options& requested, int job_ranks);

/// The same training in one process: the same batches in the same micro-batches. Floating-point
/// sums depend on their order, and training amplifies a difference in the last bit a hundredfold
/// every few hundred steps; so one process sums each replica's micro-batches first, then the
/// replicas.
job single_process(const job& distributed);

/// The job with fewer replicas, each of which computes what it did.
job with_replicas(const job& before, int count);

/// The pipeline schedule of the job's stages.
pipeline_schedule schedule_of(const job& what);
/// What a micro-batch costs in each stage of that schedule, by chunk in the order of the model, in
/// proportion to its multiplications.
std::vector<stage_cost> costs_of(const job& what);

/// The settings that must be equal on all ranks, as names and values.
using job_config = std::vector<std::pair<std::string, std::string>>;
job_config job_config_of(const job& agreed);
/// Text for the rendezvous store, one line per setting, and back. `parse_job_config` accepts any
/// text and ignores lines it cannot parse.
std::string to_text(const job_config& agreed);
job_config parse_job_config(std::string_view text);
/// Describes the differences of two configurations, naming both ranks; empty where they are equal.
std::string difference(const job_config& local, int local_rank, const job_config& remote,
                       int remote_rank);

}  // namespace tandem::train
