#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tandem/settings.hpp>

#include "data.hpp"

namespace tandem::train {

/// What the command line says. The standard run falls from 5.5 to about 1.8 nats per token.
struct options {
  std::string model = "llama-small";
  std::string data = debian_licences;
  int steps = 200;
  int batch = 16;         ///< sequences a step, over all replicas
  int micro_batches = 4;  ///< pieces of a replica's share of the batch
  int sequence = 0;       ///< tokens; 0: the model's own
  double learning_rate = 3e-3;
  int seed = 1;
  std::string schedule = "1f1b";

  int ranks = 0;
  std::string islands;
  int stages = 0;
  std::string split;

  std::string channel = "tcp";  ///< what carries the messages: "mixed", "tcp", "shm", "rails"
  std::string report = "tandem-train.html";
  std::string json;
  bool no_reference = false;

  settings engine;
};

/// Fills `wanted` from the environment and `args`. False where help was asked for and printed.
/// @par Errors `errc::bad_option`: which, why, and the nearest right one.
bool parse(std::span<const std::string> args, options& wanted);

}  // namespace tandem::train
