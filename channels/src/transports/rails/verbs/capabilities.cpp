#include "transports/rails/verbs/capabilities.hpp"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <tandem/detail/resources.hpp>

#include "transports/rails/verbs/owned.hpp"

namespace tandem::verbs {
namespace {

struct free_deleter {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

std::string refusal(std::string_view call, int failure) {
  return fmt::format("{}: {}", call, detail::errno_text(failure));
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::uint64_t mib = 1 << 20;
  return bytes >= mib && bytes % mib == 0 ? fmt::format("{} MiB", bytes / mib)
                                          : fmt::format("{} bytes", bytes);
}

capability messages_of(std::uint64_t max_bytes) {
  if (max_bytes == 0) return {false, "messages", "the port reports a maximum of 0 bytes"};
  return {true, "messages", "up to " + bytes_text(max_bytes)};
}

/// An opened device and the probes on it. Where opening fails, every probe reports that failure.
class device_probe {
 public:
  device_probe(const detail::ibverbs& driver, const std::string& name) : driver_(driver) {
    open(name);
    if (!context_) return;
    pd_ = {driver, driver.alloc_pd(context_.get())};
    if (!pd_) why_not_ = refusal("ibv_alloc_pd", errno);
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    page_.reset(std::aligned_alloc(bytes, bytes));
    page_bytes_ = bytes;
  }

  void queue_pairs(std::vector<capability>& into) {
    capability immediate{false, "immediate data", why_not_},
        inlined{false, "inline sending", why_not_};
    if (pd_) cq_ = {driver_, driver_.create_cq(context_.get(), 1, nullptr, nullptr, 0)};
    if (pd_ && !cq_) immediate.how = inlined.how = refusal("ibv_create_cq", errno);
    if (cq_) {
      std::uint32_t bytes = requested_inline_bytes;
      const int failure = make_queue_pair(bytes);
      inlined.has = failure == 0 && bytes > 0;
      inlined.how =
          inlined.has ? fmt::format("up to {} bytes", bytes)
          : failure == 0
              ? "not supported by the device"
              : refusal(fmt::format("ibv_create_qp with {} inline bytes", requested_inline_bytes),
                        failure);
      std::uint32_t none = 0;
      const int plain = failure == 0 ? 0 : make_queue_pair(none);
      immediate.has = plain == 0;
      immediate.how = plain == 0 ? "" : refusal("ibv_create_qp", plain);
    }
    into.push_back(std::move(immediate));
    into.push_back(std::move(inlined));
  }

  capability relaxed_ordering() {
    capability found{false, "relaxed ordering", why_not_};
    if (!pd_) return found;
    if (driver_.reg_mr_iova2 == nullptr) {
      found.how = "libibverbs has no ibv_reg_mr_iova2: install rdma-core 30 or newer";
      return found;
    }
    constexpr unsigned with_flag =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    const auto at = reinterpret_cast<std::uintptr_t>(page_.get());
    const owned_mr made(driver_,
                        driver_.reg_mr_iova2(pd_.get(), page_.get(), page_bytes_, at, with_flag));
    found.has = static_cast<bool>(made);
    found.how = found.has ? "accepted, though a driver may ignore it"
                          : refusal("ibv_reg_mr_iova2 with the flag", errno);
    return found;
  }

  capability dmabuf() {
    capability found{false, "dma-buf", why_not_};
    if (!pd_) return found;
    if (driver_.reg_dmabuf_mr == nullptr) {
      found.how = "libibverbs has no ibv_reg_dmabuf_mr: install rdma-core 34 or newer";
      return found;
    }
    const int failure = try_dmabuf(driver_, pd_.get());
    found.has = failure == EBADF;
    if (found.has) return found;
    found.how = refusal("ibv_reg_dmabuf_mr", failure);
    if (failure == EOPNOTSUPP) found.how += ": this device's driver does not support it";
    if (failure == EPROTONOSUPPORT) found.how += ": the kernel must be 5.12 or newer";
    return found;
  }

  registration_choice memory(memory_kind kind, bool is_exported) {
    if (!pd_) return {registration_method::none, why_not_};
    int not_asked = -1;
    return find_registration_method(driver_, pd_.get(), kind, is_exported, not_asked);
  }

 private:
  void open(const std::string& name) {
    why_not_ = "the device was removed";
    int count = 0;
    ibv_device** const all = driver_.get_device_list(&count);
    for (int i = 0; all != nullptr && i < count; ++i) {
      if (name != driver_.get_device_name(all[i])) continue;
      errno = 0;
      context_ = {driver_, driver_.open_device(all[i])};
      why_not_ = context_ ? "" : refusal("ibv_open_device", errno);
    }
    if (all != nullptr) driver_.free_device_list(all);
  }

  /// @return 0, with the inline bytes granted, or an errno
  int make_queue_pair(std::uint32_t& inline_bytes) {
    ibv_qp_init_attr as{};
    as.send_cq = as.recv_cq = cq_.get();
    as.qp_type = IBV_QPT_RC;
    as.cap = {1, 1, 1, 1, inline_bytes};
    const owned_qp made(driver_, driver_.create_qp(pd_.get(), &as));
    inline_bytes = as.cap.max_inline_data;
    return made ? 0 : errno;
  }

  const detail::ibverbs& driver_;
  std::unique_ptr<void, free_deleter> page_;
  std::size_t page_bytes_ = 0;
  std::string why_not_;
  owned_context context_;
  owned_pd pd_;
  owned_cq cq_;
};

}  // namespace

std::vector<capability> probe(const detail::ibverbs& driver, const std::string& device,
                              std::uint64_t max_message_bytes) {
  std::vector<capability> all{messages_of(max_message_bytes)};
  device_probe on(driver, device);
  on.queue_pairs(all);
  all.push_back(on.relaxed_ordering());
  all.push_back(on.dmabuf());
  return all;
}

int try_dmabuf(const detail::ibverbs& driver, ibv_pd* domain) {
  constexpr std::size_t page_bytes = 4096;
  constexpr int no_descriptor = -1;
  const owned_mr made(driver, driver.reg_dmabuf_mr(domain, 0, page_bytes, 0, no_descriptor,
                                                   IBV_ACCESS_LOCAL_WRITE));
  return made ? 0 : errno;
}

registration_choice find_registration_method(const detail::ibverbs& driver, ibv_pd* domain,
                                             memory_kind kind, bool is_exported,
                                             int& dmabuf_probe) {
  registration_facts facts{kind, is_exported, driver.reg_dmabuf_mr != nullptr, 0, {}};
  if (kind == memory_kind::host && !is_exported) return choose_registration_method(facts);
  if (facts.library_has_dmabuf && dmabuf_probe < 0) dmabuf_probe = try_dmabuf(driver, domain);
  facts.dmabuf_probe = dmabuf_probe;
  facts.peer_module = find_peer_module(kind);
  return choose_registration_method(facts);
}

registration_choice probe_registration(const detail::ibverbs& driver, const std::string& device,
                                       memory_kind kind, bool is_exported) {
  return device_probe(driver, device).memory(kind, is_exported);
}

std::string describe(const capability& one) {
  if (!one.has) return fmt::format("no {}: {}", one.what, one.how);
  return one.how.empty() ? one.what : fmt::format("{} {}", one.what, one.how);
}

}  // namespace tandem::verbs
