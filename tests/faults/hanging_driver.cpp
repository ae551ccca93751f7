// A library named like CUDA's driver or libibverbs whose functions do not return, as those of a
// driver that waits for a device. With TANDEM_HANGS_LOADING it hangs in its constructor.
#include <unistd.h>

#include <cstring>
#include <initializer_list>

namespace {

[[noreturn]] void hang() {
  for (;;) ::pause();
}

int called(const char* name) {
  for (const char* const which : {"cuInit", "ibv_get_device_list"}) {
    if (std::strcmp(name, which) == 0) hang();
  }
  return 0;
}

#ifdef TANDEM_HANGS_LOADING
__attribute__((constructor)) void hang_while_loading() {
  hang();
}
#endif

}  // namespace

#define TANDEM_FUNCTION(member, name)                            \
  extern "C" __attribute__((visibility("default"))) int name() { \
    return called(#name);                                        \
  }
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#ifdef TANDEM_IBVERBS
#define TANDEM_VERBS(name) TANDEM_FUNCTION(, ibv_##name)
TANDEM_VERBS(get_device_list)
TANDEM_VERBS(free_device_list)
TANDEM_VERBS(get_device_name)
TANDEM_VERBS(open_device)
TANDEM_VERBS(close_device)
TANDEM_VERBS(query_device)
TANDEM_VERBS(query_port)
TANDEM_FUNCTION(, _ibv_query_gid_table)
TANDEM_VERBS(alloc_pd)
TANDEM_VERBS(dealloc_pd)
TANDEM_VERBS(reg_mr)
TANDEM_VERBS(dereg_mr)
TANDEM_VERBS(create_comp_channel)
TANDEM_VERBS(destroy_comp_channel)
TANDEM_VERBS(create_cq)
TANDEM_VERBS(destroy_cq)
TANDEM_VERBS(get_cq_event)
TANDEM_VERBS(ack_cq_events)
TANDEM_VERBS(create_qp)
TANDEM_VERBS(modify_qp)
TANDEM_VERBS(query_qp)
TANDEM_VERBS(destroy_qp)
TANDEM_VERBS(get_async_event)
TANDEM_VERBS(ack_async_event)
#else
#include "drivers/cuda_functions.inc"
#endif
