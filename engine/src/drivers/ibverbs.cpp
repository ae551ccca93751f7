#include <fmt/format.h>

#include <atomic>
#include <tandem/detail/ibverbs.hpp>

#include "drivers/opening.hpp"
#include "drivers/symbols.hpp"

namespace tandem::detail {
namespace {

constexpr const char* ibverbs_library = "libibverbs.so.1";
constexpr std::string_view package = "install rdma-core 32 or newer (Debian: ibverbs-providers)";

std::atomic<const ibverbs*> ibverbs_replacement{nullptr};

struct opened_ibverbs {
  ibverbs functions{};
  std::string why;  ///< empty: available

  explicit opened_ibverbs(opening_step& step) {
    step = "loading libibverbs.so.1";
    void* const found = ::dlopen(ibverbs_library, RTLD_NOW | RTLD_LOCAL);
    if (found == nullptr) {
      const char* const message = ::dlerror();
      why = fmt::format("no RDMA here: {}; {}", message != nullptr ? message : ibverbs_library,
                        package);
      return;
    }
    symbols in(found);
    fill(in);
    if (!in.missing().empty()) {
      why = fmt::format("no RDMA here: {} has no {}; {}", ibverbs_library, in.missing(), package);
      return;
    }
    step = "ibv_fork_init";
    protect_from_fork(in);
  }

  /// Before Linux 5.12 a parent that writes after fork() gets a copy of a registered page, while
  /// its NIC keeps reading the old one. ibv_fork_init does nothing where the kernel copies such
  /// pages for the child instead.
  static void protect_from_fork(symbols& in) {
    int (*fork_init)() = nullptr;
    in.find_optional(fork_init, "ibv_fork_init");
    if (fork_init != nullptr) fork_init();
  }

  void fill(symbols& in) {
    in.find(functions.get_device_list, "ibv_get_device_list");
    in.find(functions.free_device_list, "ibv_free_device_list");
    in.find(functions.get_device_name, "ibv_get_device_name");
    in.find(functions.open_device, "ibv_open_device");
    in.find(functions.close_device, "ibv_close_device");
    in.find(functions.query_device, "ibv_query_device");
    in.find(functions.query_port, "ibv_query_port");
    in.find(functions.query_gid_table, "_ibv_query_gid_table");
    in.find(functions.alloc_pd, "ibv_alloc_pd");
    in.find(functions.dealloc_pd, "ibv_dealloc_pd");
    in.find(functions.reg_mr, "ibv_reg_mr");
    in.find_optional(functions.reg_mr_iova2, "ibv_reg_mr_iova2");
    in.find_optional(functions.reg_dmabuf_mr, "ibv_reg_dmabuf_mr");
    in.find(functions.dereg_mr, "ibv_dereg_mr");
    in.find(functions.create_comp_channel, "ibv_create_comp_channel");
    in.find(functions.destroy_comp_channel, "ibv_destroy_comp_channel");
    in.find(functions.create_cq, "ibv_create_cq");
    in.find(functions.destroy_cq, "ibv_destroy_cq");
    in.find(functions.get_cq_event, "ibv_get_cq_event");
    in.find(functions.ack_cq_events, "ibv_ack_cq_events");
    in.find(functions.create_qp, "ibv_create_qp");
    in.find(functions.modify_qp, "ibv_modify_qp");
    in.find(functions.query_qp, "ibv_query_qp");
    in.find(functions.destroy_qp, "ibv_destroy_qp");
    in.find(functions.get_async_event, "ibv_get_async_event");
    in.find(functions.ack_async_event, "ibv_ack_async_event");
  }
};

}  // namespace

const ibverbs* find_ibverbs(std::string& why) {
  if (const ibverbs* const by = ibverbs_replacement.load()) return by;
  static auto& here = *new opening<opened_ibverbs>;
  const opened_ibverbs* const found = here.get("RDMA", why);
  return found != nullptr ? &found->functions : nullptr;
}

void replace_ibverbs(const ibverbs* by) noexcept {
  ibverbs_replacement.store(by);
}

}  // namespace tandem::detail
