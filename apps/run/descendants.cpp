#include "descendants.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "process.hpp"
#include "reaper.hpp"

namespace tandem::launcher {
namespace {

std::string read_all(const std::string& path) {
  const owned_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> block{};
  for (ssize_t got; (got = ::read(file.get(), block.data(), block.size())) > 0;) {
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  return text;
}

void add_numbers(const std::string& text, std::vector<pid_t>& to) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    pid_t number = 0;
    const auto [rest, failed] = std::from_chars(at, end, number);
    if (failed == std::errc()) to.push_back(number);
    at = rest == at ? at + 1 : rest;
  }
}

}  // namespace

bool proc_shows_our_namespace() noexcept {
  std::array<char, 32> text{};
  const ssize_t length = ::readlink("/proc/self", text.data(), text.size());
  pid_t shown = -1;
  if (length > 0) std::from_chars(text.data(), text.data() + length, shown);
  return shown == ::getpid();
}

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> found;
  std::error_code ended;
  std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", process), ended);
  for (; !ended && thread != std::filesystem::directory_iterator(); thread.increment(ended)) {
    add_numbers(read_all(thread->path() / "children"), found);
  }
  return found;
}

std::vector<descendant> descendants_of(pid_t process) {
  std::vector<descendant> all;
  std::set<pid_t> known{process};
  pid_t parent = process;
  for (std::size_t next = 0;; parent = all[next++].id) {
    for (const pid_t child : children_of(parent)) {
      if (!known.insert(child).second) continue;
      const pid_t group = ::getpgid(child);
      if (group < 0) continue;
      const bool leads = group == child;
      const bool is_reaper = leads && read_all(fmt::format("/proc/{}/comm", child)) ==
                                          fmt::format("{}\n", reaper_name);
      all.push_back({child, parent, group, is_reaper});
    }
    if (next == all.size()) return all;
  }
}

std::vector<pid_t> escaped_targets(std::span<const descendant> all, pid_t ranks_group) {
  std::set<pid_t> ids, left_out;
  for (const descendant& one : all) ids.insert(one.id);
  std::vector<pid_t> targets;
  for (const descendant& one : all) {
    if (one.is_reaper || left_out.count(one.parent) != 0) {
      left_out.insert(one.id);
      continue;
    }
    if (one.group == ranks_group) continue;
    // A group whose leader has ended may have members that are not of the job.
    const pid_t target = ids.count(one.group) != 0 ? -one.group : one.id;
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
      targets.push_back(target);
    }
  }
  return targets;
}

}  // namespace tandem::launcher
