#include "accelerator/driver_calls.hpp"

#include <fmt/format.h>

#include <fstream>
#include <tandem/detail/fork.hpp>

namespace tandem::devices {

error call_error(const call_failure& failure, std::string_view on) {
  return error(errc::device_failed,
               failure.text.empty() || failure.text == failure.name
                   ? fmt::format("{} on {}: {}", failure.call, on, failure.name)
                   : fmt::format("{} on {}: {}: {}", failure.call, on, failure.name, failure.text),
               std::string(failure.advice));
}

int numa_node_of(const std::string& pci) {
  std::ifstream file("/sys/bus/pci/devices/" + pci + "/numa_node");
  int node = -1;
  file >> node;
  return file ? node : -1;
}

void refuse_after_fork(std::string_view on) {
  static const detail::process_origin first_use;
  if (!first_use.is_here()) throw detail::used_after_fork(fmt::format("its context of {}", on));
}

std::string hexadecimal(const char* bytes) {
  std::string text;
  for (int i = 0; i < 16; ++i) text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  return text;
}

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace tandem::devices
