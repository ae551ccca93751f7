#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tandem/settings.hpp>

#include "data.hpp"

namespace tandem::train {

/// Options of the command line. The loss of the default run falls from 5.5 to about 1.8 nats per
/// token.
struct options {
  std::string model = "llama-small";
  std::string data = debian_licences;
  int steps = 200;
  int batch = 16;         ///< sequences per step, over all replicas
  int micro_batches = 4;  ///< micro-batches per step on each replica
  int sequence = 0;       ///< tokens; 0: the model's default
  double learning_rate = 3e-3;
  int seed = 1;
  std::string schedule = "1f1b";  ///< a name of `pipeline_kind`
  int chunks = 0;                 ///< of each stage; 0: as many as the schedule usually has

  int ranks = 0;
  std::string islands;
  int stages = 0;
  std::string split;

  std::string channel = "tcp";  ///< transport: "mixed", "tcp", "shm", "rails"
  std::string report = "tandem-train.html";
  std::string json;
  bool no_reference = false;
  bool survive = false;  ///< go on without the replicas of lost ranks

  settings engine;
};

/// Fills `requested` from the environment and `args`. False if help was requested and printed.
/// @par Errors `errc::bad_option`: the option, the reason and the closest valid option.
bool parse(std::span<const std::string> args, options& requested);

}  // namespace tandem::train
