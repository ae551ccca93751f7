#pragma once

#include <memory>
#include <tandem/fabric.hpp>

#include "rail_log.hpp"
#include "timeline.hpp"

namespace tandem::train {

/// Samples the rails of a fabric twenty times a second; a sample costs some microseconds. Records
/// nothing if the channels have no rails. Runs on the fabric's executor.
class rail_watch {
 public:
  /// @pre `over` and `since` outlive the watch.
  rail_watch(fabric& over, const timeline& since);
  rail_watch(const rail_watch&) = delete;
  rail_watch& operator=(const rail_watch&) = delete;
  ~rail_watch();

  void start();
  /// Takes a last sample. Idempotent.
  void stop();
  std::vector<nic_status> live();
  std::vector<rail_history> rails() const;

 private:
  struct sampler;
  std::shared_ptr<sampler> sampler_;
};

}  // namespace tandem::train
