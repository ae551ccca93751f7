#include "transports/rails/verbs/adapter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/log.hpp>
#include <utility>

#include "transports/rails/verbs/gid_choice.hpp"
#include "transports/rails/verbs/port_attributes.hpp"
#include "transports/rails/verbs/status_text.hpp"

namespace tandem::verbs {
namespace {

ibv_context* find_and_open(const detail::ibverbs& driver, const std::string& name) {
  int count = 0;
  ibv_device** const all = driver.get_device_list(&count);
  if (all == nullptr) throw call_failed("ibv_get_device_list", errno, name);
  ibv_context* found = nullptr;
  bool is_here = false;
  int failure = 0;
  for (int i = 0; i < count; ++i) {
    if (name != driver.get_device_name(all[i])) continue;
    is_here = true;
    found = driver.open_device(all[i]);
    failure = errno;
  }
  driver.free_device_list(all);
  if (!is_here) {
    throw error(errc::unreachable, fmt::format("{}: no such RDMA device here", name),
                "tandem rails lists the devices");
  }
  if (found == nullptr) throw call_failed("ibv_open_device", failure, name);
  return found;
}

/// The device of that name, opened. A device that hangs does not stop the loop for longer than the
/// limit of drivers.
owned_context open_named(const detail::ibverbs& driver, const std::string& name) {
  ibv_context* const found = detail::require_answer(
      fmt::format("{}: ibv_open_device", name), detail::driver_timeout(),
      "does the device hang (dmesg)?", [&driver, name] { return find_and_open(driver, name); });
  // A child process that inherited the descriptor would keep the queue pairs alive.
  detail::hide_from_children(found->cmd_fd);
  return {driver, found};
}

}  // namespace

error call_failed(std::string_view call, int number, const std::string& where) {
  std::string advice = "tandem rails shows what this machine's RDMA devices can do";
  if (number == EACCES || number == EPERM) {
    advice = "may this user open /dev/infiniband/uverbs*? in a container: --device=/dev/infiniband";
  }
  return error(errc::unreachable,
               fmt::format("{}: {}: {}", where, call, detail::errno_text(number)),
               std::move(advice));
}

std::shared_ptr<adapter> adapter::open(asio::any_io_executor executor,
                                       const detail::ibverbs& driver, const device_port& at) {
  owned_context context = open_named(driver, at.device);
  owned_pd domain(driver, driver.alloc_pd(context.get()));
  if (!domain) throw call_failed("ibv_alloc_pd", errno, at.device);
  auto made = std::make_shared<adapter>(std::move(executor), driver, at, std::move(context),
                                        std::move(domain));
  made->wait_for_event();
  return made;
}

adapter::adapter(asio::any_io_executor executor, const detail::ibverbs& driver, device_port at,
                 owned_context context, owned_pd domain)
    : executor_(std::move(executor)),
      driver_(driver),
      at_(std::move(at)),
      context_(std::move(context)),
      domain_(std::move(domain)),
      memory_(driver_, domain_.get(), at_.device),
      text_(fmt::format("{} port {}", at_.device, at_.port)),
      events_(executor_) {
  if (const int failure = driver_.query_device(context_.get(), &device_); failure != 0) {
    throw call_failed("ibv_query_device", failure, at_.device);
  }
  find_gid();
  // A second descriptor of the same file: the library closes its own.
  const int fd = ::fcntl(context_->async_fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) throw call_failed("dup", errno, at_.device);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  events_.assign(fd);
}

ibv_port_attr adapter::port() const {
  return query_port(at_.port);
}

ibv_port_attr adapter::query_port(std::uint8_t number) const {
  ibv_port_attr found{};
  if (const int failure = driver_.query_port(context_.get(), number, &found); failure != 0) {
    throw call_failed("ibv_query_port", failure, text());
  }
  return found;
}

/// The GID table of this port only.
std::vector<gid_entry> adapter::read_table() const {
  std::size_t entries = 0;
  for (int number = 1; number <= device_.phys_port_cnt; ++number) {
    entries += gid_table_size(query_port(static_cast<std::uint8_t>(number)));
  }
  std::vector<ibv_gid_entry> table;
  if (const int failure = read_gids(driver_, context_.get(), entries, table); failure != 0) {
    throw call_failed("ibv_query_gid_table", failure, text());
  }
  std::vector<gid_entry> found;
  for (const ibv_gid_entry& one : table) {
    if (one.port_num == at_.port) found.push_back(entry_of(one));
  }
  return found;
}

void adapter::find_gid() {
  const std::vector<gid_entry> table = read_table();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [this](const auto& one) { return one.index == at_.gid_index; });
  if (found == table.end()) {
    throw error(errc::unreachable, fmt::format("{}: there is no GID {}", text(), at_.gid_index),
                "does the interface still have its address?");
  }
  gid_ = *found;
  text_ += ", " + describe(gid_);
}

/// A connected queue pair keeps its GID index: once the table entry has changed, the peer does not
/// respond to it any more.
void adapter::check_gid() {
  if (lost_gid_) return;
  std::vector<gid_entry> table;
  try {
    table = read_table();
  } catch (const error& e) {
    log(log_level::info, "verbs", e.what());  // the failure of a device is reported by an event
    return;
  }
  const auto found = std::find_if(table.begin(), table.end(),
                                  [this](const auto& one) { return one.index == at_.gid_index; });
  if (found != table.end() && found->raw == gid_.raw && found->kind == gid_.kind) return;
  lost_gid_ = true;
  const bool any = found != table.end() && !is_empty(found->raw);
  const std::string why = fmt::format(
      "{}: this GID was removed: the GID table changed{}; does the interface still have its "
      "address? The rail reconnects with a GID of the new table",
      text(), any ? fmt::format(", and has {} in its place", describe(*found)) : "");
  notify([&why](device_observer& to) { to.on_gid_lost(why); });
}

/// An observer may remove itself and others during the call.
template <class Notification>
void adapter::notify(Notification notification) {
  const std::vector<device_observer*> all = observers_;
  for (device_observer* const one : all) {
    const bool is_here = std::find(observers_.begin(), observers_.end(), one) != observers_.end();
    if (is_here) notification(*one);
  }
}

void adapter::wait_for_event() {
  if (failed_) return;  // the descriptor of a removed device is always readable
  events_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](error_code failure) {
                       const auto self = weak.lock();
                       if (failure || !self) return;
                       self->read_events();
                       self->wait_for_event();
                     });
}

/// Reads all pending events, as the descriptor signals a change only once.
void adapter::read_events() {
  const auto self = shared_from_this();
  while (events_.is_open() && !failed_) {
    ibv_async_event event{};
    errno = 0;
    if (driver_.get_async_event(context_.get(), &event) != 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == 0) return;
      // The kernel's error for a removed device, after its last event.
      failed_ = true;
      notify([](device_observer& to) { to.on_device_event(IBV_EVENT_DEVICE_FATAL, nullptr); });
      return;
    }
    const ibv_event_type what = event.event_type;
    const event_subject subject = text_for(what).subject;
    const ibv_qp* const pair = subject == event_subject::queue_pair ? event.element.qp : nullptr;
    const bool is_elsewhere = subject == event_subject::port && event.element.port_num != at_.port;
    driver_.ack_async_event(&event);
    if (is_elsewhere) continue;
    if (what == IBV_EVENT_DEVICE_FATAL) failed_ = true;
    if (what == IBV_EVENT_GID_CHANGE) check_gid();
    notify([what, pair](device_observer& to) { to.on_device_event(what, pair); });
  }
}

void adapter::close() noexcept {
  error_code ignored;
  events_.close(ignored);
}

}  // namespace tandem::verbs
