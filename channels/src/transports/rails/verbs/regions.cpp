#include "transports/rails/verbs/regions.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "transports/rails/verbs/adapter.hpp"

namespace tandem::verbs {

class regions::record final : public region::record {
 public:
  record(std::shared_ptr<regions> in, registry::id which) noexcept
      : in_(std::move(in)), which_(which) {}
  ~record() override { in_->remove(which_); }
  std::string describe() const override { return in_->describe(which_); }

 private:
  const std::shared_ptr<regions> in_;
  const registry::id which_;
};

std::unique_ptr<region::record> regions::add(mutable_view memory, const dmabuf& exported) {
  const registry::id which = ++last_;
  known& one = all_[which];
  one = {memory, exported};
  if (exported.descriptor >= 0) {
    one.exported.descriptor = ::fcntl(exported.descriptor, F_DUPFD_CLOEXEC, 0);
  }
  for (const auto& weak : devices_) {
    if (const auto device = weak.lock()) device->memory().add(which, memory, one.exported);
  }
  return std::make_unique<record>(shared_from_this(), which);
}

void regions::attach(const std::shared_ptr<adapter>& opened) {
  std::erase_if(devices_, [](const auto& weak) { return weak.expired(); });
  devices_.push_back(opened);
  for (const auto& [which, one] : all_) opened->memory().add(which, one.memory, one.exported);
}

void regions::remove(registry::id which) noexcept {
  for (const auto& weak : devices_) {
    if (const auto device = weak.lock()) device->memory().remove(which);
  }
  const auto found = all_.find(which);
  if (found->second.exported.descriptor >= 0) ::close(found->second.exported.descriptor);
  all_.erase(found);
}

std::string regions::describe(registry::id which) const {
  std::string text;
  for (const auto& weak : devices_) {
    const auto device = weak.lock();
    if (!device) continue;
    if (!text.empty()) text += '\n';
    text += device->memory().describe(which);
  }
  return text.empty() ? "registered when the first lane over RDMA is set up" : text;
}

}  // namespace tandem::verbs
