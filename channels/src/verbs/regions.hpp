#pragma once

#include <map>
#include <memory>
#include <string>
#include <tandem/region.hpp>
#include <vector>

#include "verbs/registry.hpp"

namespace tandem::verbs {

/// The regions of one rank, which all of its devices know: those that are open, and each that is
/// opened later. One thread: that of the fabric.
class regions : public std::enable_shared_from_this<regions> {
 public:
  /// What a `region` holds: it ends there with it.
  std::unique_ptr<region::record> add(mutable_view memory, const dmabuf& exported);
  void attach(const std::shared_ptr<adapter>& opened);

 private:
  class record;
  struct known {
    mutable_view memory;
    dmabuf exported;  // its descriptor is ours
  };

  std::string describe(registry::id which) const;
  void remove(registry::id which) noexcept;

  std::map<registry::id, known> all_;
  std::vector<std::weak_ptr<adapter>> devices_;
  registry::id last_ = 0;
};

}  // namespace tandem::verbs
