#include "verbs/adapter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tandem/log.hpp>
#include <utility>

#include "verbs/gid_table.hpp"
#include "verbs/words.hpp"

namespace tandem::verbs {
namespace {

/// The device of that name, opened.
owned_context open_named(const detail::ibverbs& driver, const std::string& name) {
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
  return {driver, found};
}

}  // namespace

error call_failed(std::string_view call, int number, const std::string& where) {
  std::string advice = "tandem rails says what this machine's RDMA devices can do";
  if (number == EACCES || number == EPERM) {
    advice = "may this user open /dev/infiniband/uverbs*? in a container: --device=/dev/infiniband";
  }
  return error(errc::unreachable, fmt::format("{}: {}: {}", where, call, std::strerror(number)),
               std::move(advice));
}

std::shared_ptr<adapter> adapter::open(asio::any_io_executor executor,
                                       const detail::ibverbs& driver, const place& at) {
  auto made =
      std::make_shared<adapter>(std::move(executor), driver, at, open_named(driver, at.device));
  made->listen();
  return made;
}

adapter::adapter(asio::any_io_executor executor, const detail::ibverbs& driver, place at,
                 owned_context context)
    : executor_(std::move(executor)),
      driver_(driver),
      at_(std::move(at)),
      context_(std::move(context)),
      events_(executor_) {
  if (const int failure = driver_.query_device(context_.get(), &device_); failure != 0) {
    throw call_failed("ibv_query_device", failure, at_.device);
  }
  // A second descriptor of the same file: the library closes its own.
  const int fd = ::dup(context_->async_fd);
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

std::array<std::byte, 16> adapter::gid() const {
  std::size_t places = 0;
  for (int number = 1; number <= device_.phys_port_cnt; ++number) {
    places += gid_places(query_port(static_cast<std::uint8_t>(number)));
  }
  std::vector<ibv_gid_entry> table;
  if (const int failure = read_gids(driver_, context_.get(), places, table); failure != 0) {
    throw call_failed("ibv_query_gid_table", failure, text());
  }
  for (const ibv_gid_entry& entry : table) {
    const bool is_it =
        entry.port_num == at_.port && entry.gid_index == static_cast<unsigned>(at_.gid_index);
    if (!is_it) continue;
    std::array<std::byte, 16> raw;
    std::memcpy(raw.data(), entry.gid.raw, raw.size());
    return raw;
  }
  throw error(errc::unreachable,
              fmt::format("{}: there is no GID {} any more", text(), at_.gid_index),
              "does the interface still have its address?");
}

std::string adapter::text() const {
  return fmt::format("{} port {}", at_.device, at_.port);
}

void adapter::listen() {
  events_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [weak = weak_from_this()](error_code failure) {
                       const auto self = weak.lock();
                       if (failure || !self) return;
                       self->hear();
                       self->listen();
                     });
}

/// To the last one: the descriptor tells of a change only once.
void adapter::hear() {
  const auto self = shared_from_this();
  ibv_async_event said{};
  while (events_.is_open() && driver_.get_async_event(context_.get(), &said) == 0) {
    const ibv_event_type what = said.event_type;
    const concerned who = words_for(what).who;
    const ibv_qp* const pair = who == concerned::queue_pair ? said.element.qp : nullptr;
    const bool is_elsewhere = who == concerned::port && said.element.port_num != at_.port;
    driver_.ack_async_event(&said);
    if (is_elsewhere) continue;
    const std::vector<listener*> all = listeners_;
    for (listener* const one : all) {
      const bool is_here = std::find(listeners_.begin(), listeners_.end(), one) != listeners_.end();
      if (is_here) one->device_says(what, pair);
    }
  }
}

void adapter::close() noexcept {
  error_code ignored;
  events_.close(ignored);
}

}  // namespace tandem::verbs
