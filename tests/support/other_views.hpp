#pragma once

#include <functional>
#include <memory>
#include <tandem/channel.hpp>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::test {

/// Memory that views take their parts of, so that one allocation carries many messages, as those of
/// training frameworks do.
class arena {
 public:
  arena(std::shared_ptr<std::byte> all, std::size_t bytes) : all_(std::move(all)), bytes_(bytes) {}
  /// Null where there is no room.
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* which);

 private:
  struct part {
    std::size_t first, end;
  };
  const std::shared_ptr<std::byte> all_;
  const std::size_t bytes_;
  std::vector<part> taken_;  // in order
};

/// What stands in for the view of a user's operation in the channel below.
class other_view {
 public:
  virtual ~other_view() = default;
  virtual mutable_view get() const = 0;
  /// Its bytes, for the processor. Null: nothing is to be copied.
  virtual void* bytes() const = 0;
};
using other_view_maker = std::function<std::unique_ptr<other_view>(const mutable_view& of_user)>;

/// A view that is what it is, with nothing copied.
std::unique_ptr<other_view> as_it_is(const mutable_view& view);

/// A channel whose users' views are others below: what is sent is copied there before, what was
/// received from there after, whatever became of it. So a suite that knows one kind of memory tests
/// others, too. Says `host` as its only kind, as its users have no other.
std::unique_ptr<channel> with_other_views(std::unique_ptr<channel> below, other_view_maker make);

}  // namespace tandem::test
