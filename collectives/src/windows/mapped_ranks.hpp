#pragma once

#include <boost/asio/awaitable.hpp>
#include <deque>
#include <memory>
#include <tandem/async.hpp>
#include <tandem/fabric.hpp>
#include <utility>
#include <vector>

namespace tandem::detail {

/// The memory of those ranks of a window that this process has mapped. Puts and gets are loads and
/// stores there, and their owner takes no part.
class mapped_ranks {
 public:
  using mapping = std::shared_ptr<const mapped_memory>;

  /// Null for a rank whose memory is accessed by messages.
  explicit mapped_ranks(std::vector<mapping> of_ranks) : ranks_(of_ranks.size()) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i].memory = std::move(of_ranks[i]);
  }

  const mapping& of(int rank) const noexcept { return at(rank).memory; }
  /// Whether a put has gone to the rank by message since the last flush, as out of device memory.
  bool& has_sent_messages(int rank) noexcept { return at(rank).has_sent_messages; }

  /// A call's place among those of this process to one rank, which happen one after the other.
  class place {
   public:
    /// @param changed  wakes the calls that wait for their turn, when this one leaves its place
    place(mapped_ranks& among, int rank, async_condition& changed)
        : calls_(among.at(rank).calls), changed_(changed) {
      calls_.push_back(this);
    }
    place(const place&) = delete;
    place& operator=(const place&) = delete;
    ~place() {
      std::erase(calls_, this);
      if (!calls_.empty()) changed_.notify_all();
    }
    bool is_first() const noexcept { return calls_.front() == this; }

   private:
    std::deque<const place*>& calls_;
    async_condition& changed_;
  };

 private:
  struct rank_state {
    mapping memory;
    std::deque<const place*> calls;
    bool has_sent_messages = false;
  };
  rank_state& at(int rank) noexcept { return ranks_[static_cast<std::size_t>(rank)]; }
  const rank_state& at(int rank) const noexcept { return ranks_[static_cast<std::size_t>(rank)]; }

  std::vector<rank_state> ranks_;
};

/// Copies between mapped and own memory, unless it is more than one piece; then false.
/// @pre both are host memory of the same length
bool copy_at_once(mutable_view into, const_view from) noexcept;
/// Copies between mapped and own memory, and lets the loop run after each piece.
/// @pre both are host memory of the same length
asio::awaitable<void> copy_in_pieces(mutable_view into, const_view from);

}  // namespace tandem::detail
