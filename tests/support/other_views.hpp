#pragma once

#include <functional>
#include <memory>
#include <tandem/channel.hpp>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::test {

/// Memory of which views take parts, so that one allocation is used by many messages, as in
/// training frameworks.
class arena {
 public:
  arena(std::shared_ptr<std::byte> all, std::size_t bytes) : all_(std::move(all)), bytes_(bytes) {}
  /// Null: not enough room.
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* which);

 private:
  struct part {
    std::size_t first, end;
  };
  const std::shared_ptr<std::byte> all_;
  const std::size_t bytes_;
  std::vector<part> taken_;  // in order of addresses
};

/// The replacement of a user's view in the inner channel.
class other_view {
 public:
  virtual ~other_view() = default;
  virtual mutable_view get() const = 0;
  /// Its bytes as accessible by CPUs. Null: nothing is copied.
  virtual void* bytes() const = 0;
};
using other_view_maker = std::function<std::unique_ptr<other_view>(const mutable_view& of_user)>;

/// A replacement that is the view itself, without a copy.
std::unique_ptr<other_view> as_it_is(const mutable_view& view);

/// A channel that replaces its users' views: data to send is copied before, received data after,
/// whatever the result. So a suite that knows one kind of memory tests others. Its limits list only
/// `host`, the kind of its users' views.
std::unique_ptr<channel> with_other_views(std::unique_ptr<channel> below, other_view_maker make);

}  // namespace tandem::test
