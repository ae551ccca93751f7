#include "devices/driver_calls.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <fstream>

namespace tandem::devices {
namespace {

std::atomic<bool> is_child{false};

}  // namespace

error refused(const refusal& said, std::string_view on) {
  return error(errc::device_failed,
               said.text.empty() || said.text == said.name
                   ? fmt::format("{} on {}: {}", said.call, on, said.name)
                   : fmt::format("{} on {}: {}: {}", said.call, on, said.name, said.text),
               std::string(said.advice));
}

int numa_node_of(const std::string& pci) {
  std::ifstream file("/sys/bus/pci/devices/" + pci + "/numa_node");
  int node = -1;
  file >> node;
  return file ? node : -1;
}

void refuse_after_fork(std::string_view on) {
  [[maybe_unused]] static const int watched =
      ::pthread_atfork(nullptr, nullptr, [] { is_child.store(true, std::memory_order_relaxed); });
  if (!is_child.load(std::memory_order_relaxed)) return;
  throw error(errc::device_failed,
              fmt::format("{} was used by the parent of this process before it forked", on),
              "start new processes (spawn) instead of forking, or fork before the first use");
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
