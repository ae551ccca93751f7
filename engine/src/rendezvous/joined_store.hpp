#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tandem/detail/fork.hpp>
#include <tandem/store.hpp>
#include <vector>

#include "rendezvous/store_client.hpp"
#include "rendezvous/store_server.hpp"

namespace tandem::rendezvous {

/// Where the ranks of a job meet again after a loss: each listens, and each knows where all others
/// do, so that any of them can serve the next store. Connections wait until the rank calls
/// `store::shrink`; those to a rank that is gone are refused.
struct meeting_points {
  tcp::acceptor own;
  std::vector<tcp::endpoint> all;  ///< by rank
};

/// Listens for such connections at an address of this host. @par Errors `limit_exceeded`,
/// `bad_input`.
tcp::acceptor listen_for_survivors(const asio::any_io_executor& executor,
                                   const asio::ip::address& address);

/// The job as it was started: its incarnations are named after it.
struct incarnation {
  std::string job;  ///< the first one's name
  int number = 0;   ///< how often it was shrunk

  std::string name() const;
};

/// The store of a rank that has joined its job.
class joined_store final : public store {
 public:
  /// @param server  null: another rank serves the store.
  joined_store(std::shared_ptr<store_client> client, std::shared_ptr<store_server> server,
               settings options, incarnation which);
  ~joined_store() override;

  const launch_info& who() const noexcept override { return client_->who(); }
  std::string local_address() const override { return client_->local_address(); }
  secret data_key() const override { return client_->data_key(); }
  std::vector<int> previous_ranks() const override { return client_->previous_ranks(); }

  asio::awaitable<void> set(std::string key, std::string value) override;
  asio::awaitable<std::vector<std::string>> get(std::vector<std::string> keys,
                                                std::chrono::milliseconds limit) override;
  asio::awaitable<std::int64_t> add(std::string key, std::int64_t amount) override;
  void on_lost(lost_handler handler) override { client_->on_lost(std::move(handler)); }
  void report(const error& reason) noexcept override;
  void leave() noexcept override;
  asio::awaitable<std::shared_ptr<store>> shrink() override;

  /// Of a shrunk job: where to meet next, at the addresses where the ranks met before.
  void meet_next_at(meeting_points where, const std::vector<tcp::endpoint>& before);
  /// Once all have joined: the address to publish and, if the job may be shrunk, where to meet
  /// then.
  static asio::awaitable<void> complete(std::shared_ptr<joined_store> self);

 private:
  template <class Work>
  void attempt(Work work) noexcept;

  const detail::process_origin origin_;
  const std::shared_ptr<store_client> client_;
  const std::shared_ptr<store_server> server_;
  const settings options_;
  const incarnation which_;
  std::optional<meeting_points> meeting_points_;
};

/// What a rank knows of its job when it shrinks it.
struct shrinking_job {
  launch_info before;
  settings options;
  incarnation next;
  meeting_points where;
  int lost_rank = -1;  ///< -1: none is known
};
/// The store of the ranks that are left. The lowest of them serves it.
asio::awaitable<std::shared_ptr<store>> meet_again(shrinking_job from);

}  // namespace tandem::rendezvous
