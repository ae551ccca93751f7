#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tandem/launch.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>
#include <utility>
#include <vector>

#include "rendezvous/store_connection.hpp"
#include "rendezvous/store_protocol.hpp"
#include "security/credentials.hpp"

namespace tandem::rendezvous {

/// The client end of the store, one for each rank. Any number of requests may be in flight.
/// Coroutines take the client by shared pointer: it outlives the store object while they wait.
class store_client final : public store_connection::observer,
                           public std::enable_shared_from_this<store_client> {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using pointer = std::shared_ptr<store_client>;

  /// @param trust  null: the server is not authenticated.
  store_client(const asio::any_io_executor& executor, launch_info who, settings options,
               std::shared_ptr<const trust::credentials> trust);

  /// Sends the hello over a connected socket. True: rank 0 has accepted this rank. False: it closed
  /// the connection or did not reply, see `handshake_failure`; to be retried.
  /// @par Errors  failures that a retry would not change.
  static asio::awaitable<bool> handshake(pointer self, tcp::socket socket, time_point until);
  /// Waits until all ranks have joined. @par Errors  the error that rank 0 reports.
  static asio::awaitable<void> wait_for_all(pointer self, time_point until);

  static asio::awaitable<void> set(pointer self, std::string key, std::string value);
  static asio::awaitable<std::vector<std::string>> get(pointer self, std::vector<std::string> keys,
                                                       std::chrono::milliseconds limit);
  static asio::awaitable<std::int64_t> add(pointer self, std::string key, std::int64_t amount);

  void on_lost(store::lost_handler handler);
  void report(const error& reason);
  void leave();
  /// Closes without `leave`; pending requests end with an error.
  void stop() noexcept;

  const launch_info& who() const noexcept { return who_; }
  const secret& data_key() const noexcept { return data_key_; }
  /// Of a shrunk job: the ranks before, in the order of the new ones.
  const std::vector<int>& previous_ranks() const noexcept { return previous_ranks_; }
  const std::vector<int>& meeting_ports() const noexcept { return meeting_ports_; }
  /// Of a shrunk job, before the handshake: where this rank listens for the next one.
  void set_meeting_port(std::uint16_t port) { meeting_port_ = port; }
  /// Why the job has failed; empty while it has not.
  const std::optional<error>& job_failure() const noexcept { return job_failure_; }
  /// The others have given up this rank.
  bool is_given_up() const noexcept { return given_up_; }
  const std::string& local_address() const noexcept { return socket_addresses_.local_address; }
  void set_local_address(std::string address) {
    socket_addresses_.local_address = std::move(address);
  }
  /// This rank runs on rank 0's host, judging by addresses.
  bool is_on_host_of_rank_0() const noexcept { return socket_addresses_.is_same_host; }
  const std::string& where() const noexcept { return where_; }
  const std::string& handshake_failure() const noexcept { return handshake_failure_; }

 private:
  enum class stage {
    disconnected,  ///< no connection: not yet, or closed before rank 0 accepted this rank
    handshaking,   ///< hello sent
    waiting,       ///< accepted; other ranks are missing
    running,       ///< all ranks have joined
    closed         ///< closed for good; the reason is in `failure_`
  };
  struct waiter;

  void received(store_connection& from, std::string_view bytes) override;
  void ended(store_connection& from, const error_code& why) override;
  void untrusted(store_connection& from, const trust::tls_session& session) override;
  void on(store_reply reply);
  void check_stream();
  void answer(std::uint64_t id, store_reply reply);
  void take_members(const started_reply& started);
  void wake_all();
  void closed(const error& why);
  void lost(const error& reason);
  error with_rank(const error& inner) const;
  static asio::awaitable<store_reply> send_request(pointer self, std::uint64_t id,
                                                   store_request request,
                                                   std::chrono::milliseconds limit,
                                                   std::string what);

  asio::any_io_executor executor_;
  launch_info who_;
  settings options_;
  std::shared_ptr<const trust::credentials> trust_;
  secret data_key_;
  std::string where_;
  time_point started_;
  stage stage_ = stage::disconnected;
  std::shared_ptr<store_connection> connection_;
  frame_splitter splitter_{max_reply_bytes};
  asio::steady_timer changed_;  ///< cancelled whenever `stage_` changes
  std::string handshake_failure_;
  socket_addresses socket_addresses_;
  std::optional<error> failure_;  ///< of every request from now on
  std::optional<error> cause_;    ///< for a handler that is not set yet
  std::optional<error> job_failure_;
  std::vector<int> previous_ranks_, meeting_ports_;
  std::uint16_t meeting_port_ = 0;
  bool given_up_ = false;
  store::lost_handler lost_handler_;
  bool rank_0_leaving_ = false;
  bool left_ = false;
  std::map<std::uint64_t, waiter*> waiters_;
  std::uint64_t next_id_ = 1;
};

}  // namespace tandem::rendezvous
