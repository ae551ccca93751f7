#pragma once

#include <map>
#include <memory>
#include <string>
#include <tandem/memory.hpp>
#include <vector>

#include "transports/rails/verbs/registry.hpp"

namespace tandem::verbs {

/// The memory regions of one rank, registered with all of its devices: with those that are open,
/// and with each that is opened later. Not thread-safe: used on the fabric's thread.
class regions : public std::enable_shared_from_this<regions> {
 public:
  /// The registration that a `region` owns; it is removed with it.
  std::unique_ptr<region::record> add(mutable_view memory, const dmabuf& exported);
  void attach(const std::shared_ptr<adapter>& opened);

 private:
  class record;
  struct known {
    mutable_view memory;
    dmabuf exported;  // with a duplicate of the descriptor, owned here
  };

  std::string describe(registry::id which) const;
  void remove(registry::id which) noexcept;

  std::map<registry::id, known> all_;
  std::vector<std::weak_ptr<adapter>> devices_;
  registry::id last_ = 0;
};

}  // namespace tandem::verbs
