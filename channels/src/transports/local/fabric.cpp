#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <mutex>
#include <tandem/channels.hpp>
#include <tandem/detail/fork.hpp>
#include <utility>

#include "transports/local/pair.hpp"

namespace tandem::local {
namespace {

/// All ranks of the process; announces a lost one.
struct rank_registry : std::enable_shared_from_this<rank_registry> {
  struct entry {
    asio::any_io_executor executor;
    class rank_fabric* attached = nullptr;
  };
  std::mutex mutex;
  std::vector<entry> entries;
  std::optional<error> lost;  // the first loss, which all ranks report

  /// Fails all ranks with the first loss, and returns it.
  error announce(const error& reason);
};

class rank_fabric final : public fabric {
 public:
  rank_fabric(std::shared_ptr<rank_registry> in, int rank, int size)
      : registry_(std::move(in)), rank_(rank), channels_(static_cast<std::size_t>(size)) {}

  ~rank_fabric() override {
    if (!origin_.is_here()) return;
    {
      const std::lock_guard lock(registry_->mutex);
      registry_->entries[static_cast<std::size_t>(rank_)].attached = nullptr;
    }
    if (closed_) return;
    fail(error(errc::peer_lost, {.peer = rank_,
                                 .rail = {},
                                 .phase = {},
                                 .detail = fmt::format("rank {} is gone", rank_),
                                 .advice = fmt::format("see the last output of rank {}", rank_)}));
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return static_cast<int>(channels_.size()); }
  asio::any_io_executor get_executor() const noexcept override {
    return registry_->entries[static_cast<std::size_t>(rank_)].executor;
  }
  std::string_view kind() const noexcept override { return "local"; }
  channel* find(int peer) noexcept override {
    return channels_[static_cast<std::size_t>(peer)].get();
  }
  asio::awaitable<std::reference_wrapper<channel>> to(int peer) override { co_return *find(peer); }

  void fail(const error& reason) noexcept override {
    if (origin_.is_here()) fail_here(registry_->announce(reason));
  }
  void close() noexcept override {
    if (!origin_.is_here()) return;
    closed_ = true;
    for (const auto& c : channels_) {
      if (c) c->close();
    }
  }

  void fail_here(const error& reason) noexcept {
    closed_ = true;
    for (const auto& c : channels_) {
      if (c) c->fail(reason);
    }
  }
  void set(int peer, std::unique_ptr<channel> c) {
    channels_[static_cast<std::size_t>(peer)] = std::move(c);
  }

 private:
  const detail::process_origin origin_;
  std::shared_ptr<rank_registry> registry_;
  int rank_;
  std::vector<std::unique_ptr<channel>> channels_;
  bool closed_ = false;
};

error rank_registry::announce(const error& reason) {
  const std::lock_guard lock(mutex);
  if (!lost) lost = reason;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].attached == nullptr) continue;
    asio::post(entries[i].executor,
               [self = shared_from_this(), i, why = *lost, alive = entries[i].attached] {
                 {
                   const std::lock_guard again(self->mutex);
                   if (self->entries[i].attached != alive) return;
                 }
                 alive->fail_here(why);
               });
  }
  return *lost;
}

}  // namespace

std::vector<std::unique_ptr<fabric>> make_fabrics(std::vector<asio::any_io_executor> executors,
                                                  const settings& options) {
  const auto shared = std::make_shared<rank_registry>();
  const std::size_t size = executors.size();
  std::vector<std::unique_ptr<rank_fabric>> ranks;
  for (std::size_t i = 0; i < size; ++i) {
    ranks.push_back(
        std::make_unique<rank_fabric>(shared, static_cast<int>(i), static_cast<int>(size)));
    shared->entries.push_back({executors[i], ranks[i].get()});
  }
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = i + 1; j < size; ++j) {
      auto [a, b] = connect_ranks(executors[i], executors[j], static_cast<int>(i),
                                  static_cast<int>(j), options);
      ranks[i]->set(static_cast<int>(j), std::move(a));
      ranks[j]->set(static_cast<int>(i), std::move(b));
    }
  }
  std::vector<std::unique_ptr<fabric>> result;
  for (auto& r : ranks) result.push_back(std::move(r));
  return result;
}

}  // namespace tandem::local
