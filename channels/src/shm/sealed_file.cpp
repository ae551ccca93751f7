#include "shm/sealed_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tandem/error.hpp>

namespace tandem::shm {
namespace {

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

descriptor make_sealed_file(const char* name, std::size_t bytes) noexcept {
  descriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open() || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, size_seals) != 0) {
    return {};
  }
  return file;
}

long long sealed_bytes(const descriptor& of) noexcept {
  struct stat about {};
  const int seals = of.is_open() ? ::fcntl(of.get(), F_GET_SEALS) : -1;
  const bool is_sealed = seals >= 0 && (seals & size_seals) == size_seals;
  return is_sealed && ::fstat(of.get(), &about) == 0 ? about.st_size : -1;
}

std::string system_word(int code) {
  return error_code(code, boost::system::system_category()).message();
}

}  // namespace tandem::shm
