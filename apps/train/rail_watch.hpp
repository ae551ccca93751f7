#pragma once

#include <memory>
#include <tandem/fabric.hpp>

#include "rail_log.hpp"
#include "timeline.hpp"

namespace tandem::train {

/// Looks at the rails of a fabric twenty times a second and writes down what they do; a look costs
/// some microseconds. Knows nothing where channels have no rails. On the fabric's executor.
class rail_watch {
 public:
  /// @pre both outlive the watch.
  rail_watch(fabric& over, const timeline& since);
  rail_watch(const rail_watch&) = delete;
  rail_watch& operator=(const rail_watch&) = delete;
  ~rail_watch();

  void start();
  /// Looks a last time. Harmless twice.
  void stop();
  std::vector<nic_now> live();
  std::vector<rail_history> rails() const;

 private:
  struct looker;
  std::shared_ptr<looker> looker_;
};

}  // namespace tandem::train
