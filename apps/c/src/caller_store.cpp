#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <optional>
#include <tandem/detail/trust.hpp>
#include <tandem/version.hpp>
#include <vector>

#include "job_state.hpp"

namespace tandem::c {
namespace {

namespace ip = boost::asio::ip;

constexpr std::size_t max_value_bytes = 1024 * 1024;
/// What rank 0 announces begins so where it found no meeting point.
constexpr std::string_view refusal = "refused: ";

/// The caller's functions, with errors as exceptions.
class key_values {
 public:
  key_values(const tandem_store& of, std::string job, std::chrono::milliseconds limit)
      : of_(of), prefix_(std::move(job)), limit_(limit) {
    if (of.set != nullptr && of.get != nullptr) return;
    throw error(errc::bad_input, "tandem_job_create: the store has no function set or get");
  }
  void set(const std::string& key, const std::string& value) const {
    const std::string full = prefix_ + "/" + key;
    if (of_.set(of_.context, full.c_str(), value.data(), value.size()) == 0) return;
    throw error(errc::bad_input, fmt::format("the store of the program could not set '{}'", full),
                "is the process that serves it still running?");
  }
  std::string get(const std::string& key, std::string_view set_by) const {
    const std::string full = prefix_ + "/" + key;
    std::string value(max_value_bytes, '\0');
    std::size_t bytes = value.size();
    if (of_.get(of_.context, full.c_str(), value.data(), &bytes, limit_.count()) == 0 &&
        bytes <= value.size()) {
      value.resize(bytes);
      return value;
    }
    throw error(
        errc::rank_missing,
        fmt::format("the store of the program has no '{}': {} did not join within {} s", full,
                    set_by, std::chrono::duration_cast<std::chrono::seconds>(limit_).count()),
        "is that rank running, with the same program and the same version of Tandem?");
  }

 private:
  const tandem_store& of_;
  const std::string prefix_;
  const std::chrono::milliseconds limit_;
};

/// A port of this host that is free now. @par Errors thrown: of the system.
std::uint16_t free_port(const ip::address& at) {
  boost::asio::io_context context(1);
  ip::tcp::acceptor probe(context, ip::tcp::endpoint(at, 0));
  return probe.local_endpoint().port();
}

std::string random_text() {
  trust::digest bytes;
  trust::random_bytes(bytes);
  std::string text;
  for (const std::byte each : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(each));
  return text;
}

/// @par Errors `errc::unreachable`: there is none.
ip::address external_address(const settings& options) {
  if (const std::optional<ip::address> found = find_external_address(options)) return *found;
  throw error(errc::unreachable, "this host has no address for ranks of other hosts",
              "bring a network interface up, or set MASTER_ADDR to an address of rank 0's host");
}

/// What rank 0 announces to the others, a line each.
struct meeting_point {
  std::string address;
  std::string port;
  std::string job;
  std::string secret;

  std::string text() const { return fmt::format("{}\n{}\n{}\n{}\n", address, port, job, secret); }
  static meeting_point parse(std::string_view text) {
    meeting_point p;
    for (std::string* const part : {&p.address, &p.port, &p.job, &p.secret}) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      *part = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return p;
  }
};

bool has_credentials(const settings& options) {
  return !options.secret_file.empty() || !options.job_secret.empty() ||
         !options.certificate_file.empty() || options.insecure;
}

meeting_point choose(bool one_host, const settings& options) {
  meeting_point made;
  const ip::address at =
      one_host ? ip::address(ip::address_v4::loopback()) : external_address(options);
  made.address = at.to_string();
  made.port = std::to_string(free_port(at));
  made.job = random_text().substr(0, 16);
  if (!one_host && !has_credentials(options)) made.secret = random_text();
  return made;
}

/// A line of each rank after the meeting point's four.
struct rank_entry {
  std::string host;
  std::string version;  ///< of Tandem; empty: of a version that did not say so yet

  std::string text() const { return fmt::format("{}\t{}", host, version); }
  static rank_entry parse(std::string_view line) {
    const std::size_t end = std::min(line.find('\t'), line.size());
    return {std::string(line.substr(0, end)),
            std::string(line.substr(std::min(end + 1, line.size())))};
  }
};

/// Ranks of two versions may choose different algorithms for one call, and wait forever.
void check_version(int rank, const rank_entry& of) {
  if (of.version == version()) return;
  throw error(errc::version_mismatch,
              fmt::format("rank {} has Tandem {}, this rank {}", rank,
                          of.version.empty() ? "of an older version" : of.version, version()),
              "install the same version of Tandem on every host");
}

}  // namespace

launch_info meet_through(const tandem_store& through, std::string job, int rank, int size,
                         settings& options) {
  if (size < 1 || rank < 0 || rank >= size) {
    throw error(errc::bad_input, fmt::format("tandem_job_create: rank {} of {}", rank, size),
                "ranks count from 0 to size - 1");
  }
  const key_values at(through, std::move(job), options.meet_timeout);
  const rank_entry mine{host_name(options), version()};
  at.set(fmt::format("host/{}", rank), mine.text());
  if (rank == 0) {
    std::string entries;
    bool one_host = true;
    for (int r = 0; r < size; ++r) {
      const std::string entry =
          r == 0 ? mine.text() : at.get(fmt::format("host/{}", r), fmt::format("rank {}", r));
      one_host = one_host && rank_entry::parse(entry).host == mine.host;
      entries += entry + "\n";
    }
    try {
      at.set("meet", choose(one_host, options).text() + entries);
    } catch (const error& failed) {
      // The others wait for it.
      at.set("meet", fmt::format("{}{}", refusal, failed.what()));
      throw;
    }
  }
  const std::string announced = at.get("meet", "rank 0");
  if (announced.starts_with(refusal)) {
    throw error(errc::unreachable, fmt::format("rank 0: {}", announced.substr(refusal.size())));
  }
  const meeting_point point = meeting_point::parse(announced);

  launch_info who;
  who.rank = rank;
  who.size = size;
  who.address = point.address;
  who.port = static_cast<std::uint16_t>(std::strtoul(point.port.c_str(), nullptr, 10));
  who.job = point.job;
  who.launcher = "the program";
  who.local_size = 0;
  who.local_size_known = true;
  std::size_t begin = point.text().size();
  for (int r = 0; r < size && begin < announced.size(); ++r) {
    const std::size_t end = std::min(announced.find('\n', begin), announced.size());
    const rank_entry entry = rank_entry::parse(announced.substr(begin, end - begin));
    check_version(r, entry);
    if (entry.host == mine.host) {
      if (r < rank) ++who.local_rank;
      ++who.local_size;
    }
    begin = end + 1;
  }
  if (!point.secret.empty()) options.job_secret = secret(point.secret);
  return who;
}

}  // namespace tandem::c
