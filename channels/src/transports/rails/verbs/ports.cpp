#include "transports/rails/verbs/ports.hpp"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/duration_text.hpp>
#include <tandem/detail/resources.hpp>
#include <utility>

#include "transports/rails/verbs/port_attributes.hpp"

namespace tandem::verbs {
namespace {

using detail::ibverbs;

constexpr std::string_view see_dmesg = "dmesg may say more";

std::string file_of(const ibv_device& device) {
  return fmt::format("/dev/infiniband/{}", device.dev_name);
}

/// The library searches elsewhere for a file without access, and then reports that none exists.
int open_failure(int lines, const ibv_device& device) {
  if (::access(file_of(device).c_str(), R_OK | W_OK) != 0 && errno == EACCES) return EACCES;
  return lines != 0 ? lines : EIO;
}

/// What to do about `failure` of a call on this device.
std::string advice_for(int failure, const ibv_device& of) {
  const std::string file = file_of(of);
  if (failure == EACCES || failure == EPERM) {
    return fmt::format("let this user read and write {}", file);
  }
  if (failure == ENOENT || failure == ENODEV || failure == ENXIO) {
    return fmt::format("{} must be there (in a container: --device={})", file, file);
  }
  if (failure == EMFILE || failure == ENFILE) {
    return tandem::detail::exhausted(failure, tandem::detail::resource::descriptor, file)
        .context()
        .advice;
  }
  if (failure == ENOMEM || failure == EAGAIN) return "raise the limit of locked memory: ulimit -l";
  return std::string(see_dmesg);
}

/// The library's calls return an errno, or -1 and set it.
int failure_of(int returned) {
  return returned < 0 ? errno : returned;
}

int numa_node_of(const std::string& device) {
  std::ifstream from(std::filesystem::path("/sys/class/infiniband") / device / "device/numa_node");
  int node = -1;
  return from >> node ? node : -1;
}

device_limits limits_of(const ibv_device_attr& of) {
  device_limits found;
  found.max_qp = of.max_qp;
  found.max_qp_wr = of.max_qp_wr;
  found.max_sge = of.max_sge;
  found.max_cq = of.max_cq;
  found.max_cqe = of.max_cqe;
  found.max_pd = of.max_pd;
  found.max_mr = of.max_mr;
  found.max_mr_size = of.max_mr_size;
  found.max_qp_rd_atom = of.max_qp_rd_atom;
  found.max_qp_init_rd_atom = of.max_qp_init_rd_atom;
  found.local_ack_delay = of.local_ca_ack_delay;
  return found;
}

port port_of(const ibv_port_attr& of) {
  port found;
  found.active = of.state == IBV_PORT_ACTIVE;
  found.ethernet = of.link_layer == IBV_LINK_LAYER_ETHERNET;
  found.lid = of.lid;
  found.mtu_bytes = static_cast<int>(bytes_of(of.active_mtu));
  found.max_message_bytes = of.max_msg_sz;
  found.speed_mbit = lane_speed_mbit(of.active_speed, of.active_width);
  return found;
}

/// Reads one device, and reports its errors.
class device_reader {
 public:
  device_reader(const ibverbs& driver, ibv_device& device, std::vector<std::string>& problems)
      : driver_(driver), device_(device), problems_(problems) {
    const char* const found = driver.get_device_name(&device);
    name_ = found != nullptr ? found : "?";
  }
  const std::string& name() const noexcept { return name_; }

  void read(std::vector<port>& into) {
    if (device_.transport_type != IBV_TRANSPORT_IB) {
      problems_.push_back(
          fmt::format("{}: neither InfiniBand nor RoCE{}; it is not used", name_,
                      device_.transport_type == IBV_TRANSPORT_IWARP ? " but iWARP" : ""));
      return;
    }
    errno = 0;
    ibv_context* const opened = driver_.open_device(&device_);
    if (opened == nullptr) return failed("ibv_open_device", open_failure(errno, device_));
    const auto close = [this](ibv_context* which) { driver_.close_device(which); };
    const std::unique_ptr<ibv_context, decltype(close)> owner(opened, close);
    read_ports(opened, into);
  }

 private:
  void failed(std::string_view call, int failure) {
    problems_.push_back(fmt::format("{}: {}: {}; {}", name_, call, detail::errno_text(failure),
                                    advice_for(failure, device_)));
  }

  void read_ports(ibv_context* of, std::vector<port>& into) {
    ibv_device_attr device{};
    if (const int why = failure_of(driver_.query_device(of, &device)); why != 0) {
      return failed("ibv_query_device", why);
    }
    std::vector<port> found;
    std::size_t entries = 0;
    for (int number = 1; number <= device.phys_port_cnt; ++number) {
      ibv_port_attr attributes{};
      const auto narrow = static_cast<std::uint8_t>(number);
      if (const int why = failure_of(driver_.query_port(of, narrow, &attributes)); why != 0) {
        failed(fmt::format("ibv_query_port {}", number), why);
        continue;
      }
      entries += gid_table_size(attributes);
      port one = port_of(attributes);
      one.device = name_;
      one.number = narrow;
      one.numa_node = numa_node_of(name_);
      one.limits = limits_of(device);
      found.push_back(std::move(one));
    }
    if (!found.empty() && entries > 0 && !add_gids(of, entries, found)) return;
    into.insert(into.end(), std::make_move_iterator(found.begin()),
                std::make_move_iterator(found.end()));
  }

  bool add_gids(ibv_context* of, std::size_t entries, std::vector<port>& into) {
    std::vector<ibv_gid_entry> table;
    if (const int why = read_gids(driver_, of, entries, table); why != 0) {
      failed("ibv_query_gid_table", why);
      return false;
    }
    for (const ibv_gid_entry& one : table) {
      const auto at = std::find_if(into.begin(), into.end(),
                                   [&](const port& p) { return p.number == one.port_num; });
      if (at != into.end()) at->gids.push_back(entry_of(one));
    }
    return true;
  }

  const ibverbs& driver_;
  ibv_device& device_;
  std::vector<std::string>& problems_;
  std::string name_;
};

}  // namespace

std::vector<port> find_ports(const ibverbs& driver, std::vector<std::string>* problems,
                             std::string_view only) {
  std::vector<std::string> ignored_lines;
  std::vector<std::string>& lines = problems != nullptr ? *problems : ignored_lines;
  std::vector<port> found;
  int count = 0;
  errno = 0;
  ibv_device** const list = driver.get_device_list(&count);
  if (list == nullptr) {
    const int failure = errno != 0 ? errno : EIO;
    const bool none = failure == ENOSYS;
    lines.push_back(fmt::format(
        "ibv_get_device_list: {}; {}", detail::errno_text(failure),
        none ? "the kernel has no RDMA: modprobe ib_uverbs and the NIC's own module" : see_dmesg));
    return found;
  }
  for (int i = 0; i < count; ++i) {
    device_reader one(driver, *list[i], lines);
    if (only.empty() || one.name() == only) one.read(found);
  }
  driver.free_device_list(list);
  return found;
}

std::int64_t lane_speed_mbit(std::uint8_t active_speed, std::uint8_t active_width) noexcept {
  struct code {
    std::uint8_t value;
    std::int64_t means;
  };
  constexpr std::array<code, 8> speeds{{{1, 2'500},
                                        {2, 5'000},
                                        {4, 10'000},
                                        {8, 10'000},
                                        {16, 14'000},
                                        {32, 25'000},
                                        {64, 50'000},
                                        {128, 100'000}}};
  constexpr std::array<code, 5> widths{{{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}}};
  const auto meaning = [](const auto& codes, std::uint8_t value) -> std::int64_t {
    for (const code& one : codes) {
      if (one.value == value) return one.means;
    }
    return -1;
  };
  const std::int64_t speed = meaning(speeds, active_speed);
  const std::int64_t width = meaning(widths, active_width);
  return speed < 0 || width < 0 ? -1 : speed * width;
}

local_ports find_local_ports(rdma_use asked) {
  local_ports found;
  if (asked == rdma_use::off) {
    found.why_none = "no RDMA here: --rdma or TANDEM_RDMA is off";
    return found;
  }
  const detail::ibverbs* const driver = detail::find_ibverbs(found.why_none);
  if (driver == nullptr) return found;
  using listing = std::pair<std::vector<port>, std::vector<std::string>>;
  const std::chrono::milliseconds limit = detail::driver_timeout();
  std::optional<listing> listed = detail::call_within(limit, [driver] {
    listing all;
    all.first = find_ports(*driver, &all.second);
    return all;
  });
  if (!listed) {
    found.why_none = fmt::format(
        "no RDMA here: libibverbs has not listed the devices within {}; does a driver hang "
        "(dmesg)?",
        detail::to_text(limit));
    return found;
  }
  found.all = std::move(listed->first);
  std::vector<std::string> problems = std::move(listed->second);
  if (!found.all.empty()) {
    found.problems = std::move(problems);
  } else if (problems.empty()) {
    found.why_none = "no RDMA here: no device; rdma link and ibv_devices list them";
  } else {
    found.why_none = fmt::format("no RDMA here: {}", problems.front());
    if (problems.size() > 1) found.why_none += fmt::format(" ({} more)", problems.size() - 1);
  }
  return found;
}

}  // namespace tandem::verbs
