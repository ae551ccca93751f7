#include "rendezvous/store_connection.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/detail/name_lookup.hpp>
#include <utility>

#include "rendezvous/host_text.hpp"

namespace tandem::rendezvous {
namespace {

/// Best effort: without these options a vanished host is detected later.
void set_keepalive(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&socket](int name, int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, name, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 5);           // s of silence before the first probe
  set(TCP_KEEPINTVL, 5);          // s between probes
  set(TCP_KEEPCNT, 3);            // probes without an answer
  set(TCP_USER_TIMEOUT, 20'000);  // ms that sent bytes may stay unacknowledged
}

}  // namespace

store_connection::store_connection(tcp::socket socket, std::uint64_t id,
                                   std::unique_ptr<trust::tls_session> session)
    : socket_(std::move(socket)), id_(id), session_(std::move(session)) {
  set_keepalive(socket_);
  error_code ignored;
  socket_.non_blocking(true, ignored);
}

void store_connection::start(std::weak_ptr<observer> to) {
  observer_ = std::move(to);
  if (session_) send_unencrypted(session_->take_outgoing());
  read();
}

void store_connection::read() {
  socket_.async_read_some(asio::buffer(chunk_),
                          [self = shared_from_this()](const error_code& failed, std::size_t n) {
                            const auto to = self->observer_.lock();
                            if (self->closed_ || self->finishing_ || !to) return;
                            if (failed) {
                              to->ended(*self, failed);
                              return;
                            }
                            self->arrived(*to, std::string_view(self->chunk_.data(), n));
                            if (!self->closed_ && !self->finishing_) self->read();
                          });
}

void store_connection::arrived(observer& to, std::string_view bytes) {
  if (!session_) {
    to.received(*this, bytes);
    return;
  }
  to.bytes_arrived(*this);
  session_->receive(bytes);
  send_unencrypted(session_->take_outgoing());
  const std::string plain = session_->take_plain();
  if (!plain.empty()) to.received(*this, plain);
  if (closed_ || finishing_) return;
  if (session_->at() == trust::tls_session::state::failed) to.untrusted(*this, *session_);
  if (session_->at() == trust::tls_session::state::ended) to.ended(*this, asio::error::eof);
}

void store_connection::send(std::string bytes) {
  if (session_) {
    session_->send(bytes);
    bytes = session_->take_outgoing();
  }
  send_unencrypted(std::move(bytes));
}

void store_connection::send_unencrypted(std::string bytes) {
  if (closed_ || finishing_ || bytes.empty()) return;
  std::size_t done = 0;
  while (queue_.empty() && done < bytes.size()) {
    error_code failed;
    const std::size_t n = socket_.write_some(asio::buffer(bytes) + done, failed);
    if (failed == asio::error::would_block) break;
    // The read operation reports it, after what the peer sent before: that decides.
    if (failed) return;
    done += n;
  }
  if (done == bytes.size()) return;
  bytes.erase(0, done);
  queued_bytes_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (queue_.size() == 1) flush();
}

void store_connection::flush() {
  socket_.async_write_some(asio::buffer(queue_.front()) + sent_of_first_,
                           [self = shared_from_this()](const error_code& failed, std::size_t n) {
                             if (self->closed_) return;
                             if (failed) {
                               if (self->finishing_) self->close();
                               return;
                             }
                             self->sent_of_first_ += n;
                             self->queued_bytes_ -= n;
                             if (self->sent_of_first_ == self->queue_.front().size()) {
                               self->queue_.pop_front();
                               self->sent_of_first_ = 0;
                             }
                             if (!self->queue_.empty()) {
                               self->flush();
                             } else if (self->finishing_) {
                               self->close();
                             }
                           });
}

void store_connection::finish() {
  finishing_ = true;
  if (queue_.empty()) close();
}

void store_connection::close() noexcept {
  if (std::exchange(closed_, true)) return;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  socket_.close(ignored);
}

socket_addresses addresses_of(const tcp::socket& connected) {
  error_code gone;
  const asio::ip::address here = detail::unmapped(connected.local_endpoint(gone).address());
  const asio::ip::address there = detail::unmapped(connected.remote_endpoint(gone).address());
  return {here.to_string(), here == there || there.is_loopback()};
}

std::string endpoint_text(const std::string& host, std::uint16_t port) {
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

std::string endpoint_text(const tcp::endpoint& where) {
  return detail::to_text({detail::unmapped(where.address()), where.port()});
}

}  // namespace tandem::rendezvous
