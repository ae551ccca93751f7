#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/checked_file.hpp>
#include <tandem/detail/number_text.hpp>
#include <tandem/detail/profile_file.hpp>
#include <tandem/error.hpp>
#include <tandem/plan.hpp>
#include <tandem/settings.hpp>

namespace tandem {
namespace {

constexpr std::uint64_t max_latency_ns = 10'000'000'000;
constexpr std::uint64_t max_bytes_per_us = 1'000'000'000;
constexpr std::size_t max_ranks = 1 << 16;
constexpr std::size_t max_file_bytes = 16 << 20;
constexpr detail::checked_file profile_format("profile", 1, true);

/// One line of a profile, split into key and value.
struct line_reader {
  std::string_view key;
  std::string_view value;
  std::size_t number;

  [[noreturn]] void refuse(std::string_view why, std::string advice = {}) const {
    throw error(errc::bad_input,
                fmt::format("profile, line {}: {}: {}", number, key.substr(0, 60), why),
                std::move(advice));
  }
  std::uint64_t read_integer(std::uint64_t least, std::uint64_t most) const {
    std::uint64_t result = 0;
    if (detail::read_number(value, result) == detail::number_kind::not_a_number) {
      refuse(fmt::format("{} is not an integer", value.substr(0, 60)));
    }
    if (result < least || result > most) refuse(fmt::format("outside {} to {}", least, most));
    return result;
  }
  std::string read_word() const {
    if (value.empty() || value.size() > 255) refuse("must have 1 to 255 characters");
    return std::string(value);
  }
};

void read_path(path_facts& into, std::string_view key, const line_reader& line) {
  if (key == "channel") into.channel = line.read_word();
  if (key == "rails") into.rails = line.read_integer(0, 1 << 10);
  if (key == "latency_ns") into.latency_ns = line.read_integer(1, max_latency_ns);
  if (key == "bytes_per_us") into.bytes_per_us = line.read_integer(1, max_bytes_per_us);
}

constexpr std::array<std::string_view, 13> keys{"host",
                                                "memory",
                                                "cores",
                                                "within.channel",
                                                "within.rails",
                                                "within.latency_ns",
                                                "within.bytes_per_us",
                                                "across.channel",
                                                "across.rails",
                                                "across.latency_ns",
                                                "across.bytes_per_us",
                                                "combine.bytes_per_us",
                                                "combine.latency_ns"};
/// The first bytes of a file; empty if it cannot be read.
std::string read_start(const std::string& file, std::size_t max_bytes) {
  std::string text(max_bytes, '\0');
  std::ifstream from(file, std::ios::binary);
  from.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(from.gcount()));
  return text;
}

/// Marks a value that no line has set.
constexpr std::uint64_t unset = ~std::uint64_t{0};

void read(facts& into, const line_reader& line) {
  if (line.key == "host") {
    if (into.host_of_rank.size() == max_ranks) line.refuse("too many ranks");
    into.host_of_rank.push_back(line.read_word());
  } else if (line.key == "cores") {
    const std::uint64_t cores = line.read_integer(0, max_ranks);
    if (into.cores == 0 || (cores > 0 && cores < into.cores)) into.cores = cores;
  } else if (line.key == "memory") {
    if (line.value != "host" && line.value != "device") line.refuse("neither host nor device");
    into.on_devices = into.on_devices || line.value == "device";
  } else if (line.key == "combine.latency_ns") {
    into.combine_latency_ns = line.read_integer(0, max_latency_ns);
  } else if (line.key == "combine.bytes_per_us") {
    into.combine_bytes_per_us = line.read_integer(1, max_bytes_per_us);
  } else if (std::ranges::find(keys, line.key) != keys.end()) {
    const std::size_t dot = line.key.find('.');
    read_path(line.key.starts_with("within") ? into.within : into.across, line.key.substr(dot + 1),
              line);
  } else {
    const std::string_view near = nearest(line.key, keys);
    line.refuse("unknown key", near.empty() ? "`tandem plan probe` writes a valid profile"
                                            : fmt::format("did you mean {}?", near));
  }
}

std::string_view trimmed(std::string_view text) {
  const auto blank = " \t\r";
  const std::size_t from = text.find_first_not_of(blank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(blank) - from + 1);
}

}  // namespace

std::string path_facts::text(std::string_view name) const {
  return fmt::format("{0}.channel {1}\n{0}.rails {2}\n{0}.latency_ns {3}\n{0}.bytes_per_us {4}\n",
                     name, channel, rails, latency_ns, bytes_per_us);
}

facts facts::one_host(int ranks) {
  facts result;
  result.host_of_rank.assign(static_cast<std::size_t>(ranks), "host");
  return result;
}

facts facts::of(std::span<const int> ranks) const {
  facts result = *this;
  result.host_of_rank.clear();
  result.has_board = false;
  for (const int rank : ranks) {
    result.host_of_rank.push_back(host_of_rank[static_cast<std::size_t>(rank)]);
  }
  return result;
}

std::string facts::text() const {
  std::string result;
  for (const std::string& host : host_of_rank) result += fmt::format("host {}\n", host);
  return result + within.text("within") + across.text("across") +
         fmt::format("memory {}\ncombine.bytes_per_us {}\ncombine.latency_ns {}\ncores {}\n",
                     on_devices ? "device" : "host", combine_bytes_per_us, combine_latency_ns,
                     cores);
}

void facts::use_devices() noexcept {
  on_devices = true;
  combine_bytes_per_us = 1'000'000;
  combine_latency_ns = 15'000;
}

facts facts::parse(std::string_view text) {
  facts result;
  result.combine_bytes_per_us = result.combine_latency_ns = unset;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    const std::size_t blank = line.find_first_of(" \t");
    const std::string_view value =
        blank == std::string_view::npos ? std::string_view() : trimmed(line.substr(blank));
    read(result, {line.substr(0, blank), value, number});
  }
  facts usual;
  if (result.on_devices) usual.use_devices();
  if (result.combine_bytes_per_us == unset) {
    result.combine_bytes_per_us = usual.combine_bytes_per_us;
  }
  if (result.combine_latency_ns == unset) result.combine_latency_ns = usual.combine_latency_ns;
  return result;
}

facts facts::load(const std::string& file, std::chrono::milliseconds limit) {
  const std::string text = detail::require_answer(
      fmt::format("profile {}", file), limit, "is it a file, and does its file system respond?",
      [file] { return read_start(file, max_file_bytes + 1); });
  if (text.empty()) {
    throw error(errc::bad_input, fmt::format("profile {}: cannot be read, or is empty", file),
                "write one with `tandem run -n RANKS -- tandem plan probe --save FILE`");
  }
  if (text.size() > max_file_bytes) {
    throw error(errc::bad_input, fmt::format("profile {}: longer than 16 MiB", file));
  }
  std::string why;
  const std::optional<std::string_view> content = profile_format.open(text, why);
  if (!content) {
    throw error(
        errc::bad_input, fmt::format("profile {}: {}", file, why),
        fmt::format("write it again with `tandem run -n RANKS -- tandem plan probe --save "
                    "FILE`; if you have written or edited it, its first line must be \"{}\"",
                    profile_format.edited_line()));
  }
  try {
    return parse('\n' + std::string(*content));  // an error counts the first line, too
  } catch (const error& wrong) {
    throw error(errc::bad_input, fmt::format("{}: {}", file, wrong.context().detail),
                wrong.context().advice);
  }
}

std::string detail::profile_file(const facts& measured) {
  return profile_format.seal(measured.text());
}

}  // namespace tandem
