#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <tandem/detail/hip.hpp>
#include <tandem/detail/resources.hpp>

namespace tandem::detail {

int kfd_open_error(const char* path) {
  const int opened = ::open(path, O_RDWR | O_CLOEXEC);
  if (opened < 0) return errno;
  ::close(opened);
  return 0;
}

std::string no_device_reason(std::string_view message, int failure) {
  const auto text = [message](std::string_view why) {
    return fmt::format("no HIP here: {}; {}", message, why);
  };
  switch (failure) {
    case 0:
      return text(
          "the kernel has an AMD device that HIP does not report: check rocminfo, and whether "
          "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hides it");
    case ENOENT:
    case ENODEV:
    case ENXIO:
      return text(
          "there is no /dev/kfd: the amdgpu kernel driver found no AMD GPU, or a container was "
          "started without --device=/dev/kfd --device=/dev/dri");
    case EACCES:
    case EPERM:
      return text(
          "no permission to open /dev/kfd: join its group (usermod -aG render,video USER, then log "
          "in again; for a container --group-add render --group-add video)");
    default:
      return text(fmt::format("/dev/kfd cannot be opened: {}", detail::errno_text(failure)));
  }
}

}  // namespace tandem::detail
