#include "perf/shadow.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tandem/accelerator.hpp>
#include <tandem/error.hpp>
#include <utility>

namespace tandem::perf {

namespace {

constexpr memory_kind kinds[] = {memory_kind::host, memory_kind::cuda, memory_kind::hip};

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> found(1);
  for (const char c : words) {
    if (c == ',') {
      found.emplace_back();
    } else {
      found.back() += c;
    }
  }
  return found;
}

}  // namespace

void check_memory(const std::string& words) {
  for (const std::string& word : split(words)) {
    const auto is_it = [&word](memory_kind each) { return word == name(each); };
    if (std::any_of(std::begin(kinds), std::end(kinds), is_it)) continue;
    throw error(errc::bad_option,
                fmt::format("--memory={}: no kind of memory is '{}'", words, word),
                "choose host, cuda or hip, or several: cuda,hip");
  }
}

place place_for(const std::string& words, int local_rank) {
  const std::vector<std::string> list = split(words);
  const std::string& mine = list[static_cast<std::size_t>(local_rank) % list.size()];
  for (const memory_kind each : {memory_kind::cuda, memory_kind::hip}) {
    if (mine != name(each)) continue;
    const std::size_t devices = find_accelerators(each).found.size();
    const int device = devices == 0 ? 0 : local_rank % static_cast<int>(devices);
    return {each, accelerator_at(each, device).device()};
  }
  return {};
}

mutable_view shadow::of(std::span<std::byte> bytes) {
  if (on_host()) return mutable_view(bytes);
  for (const one& each : all_) {
    if (each.bytes.data() == bytes.data() && each.bytes.size() == bytes.size()) {
      return each.there.view();
    }
  }
  one& made = all_.emplace_back(one{bytes, buffer(bytes.size(), at_.kind, at_.device)});
  copy(made, true);
  return made.there.view();
}

/// What the host has here is pageable memory, which drivers copy in their own way; nothing of that
/// is timed.
void shadow::copy(const one& which, bool to_device) {
  if (which.bytes.empty()) return;
  accelerator& device = accelerator_at(at_.kind, at_.device);
  const device_stream on(device);
  if (to_device) {
    device.copy(which.there.data(), which.bytes.data(), which.bytes.size(), on.get());
  } else {
    device.copy(which.bytes.data(), which.there.data(), which.bytes.size(), on.get());
  }
  device.finish(on.get());
}

void shadow::up() {
  for (const one& each : all_) copy(each, true);
}

void shadow::down() {
  for (const one& each : all_) copy(each, false);
}

}  // namespace tandem::perf
