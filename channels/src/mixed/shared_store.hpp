#pragma once

#include <memory>
#include <tandem/store.hpp>
#include <vector>

namespace tandem::mixed {

/// A rank's one place in its job, for several who each believe to have a store of their own.
///
/// Requests and the rest go to `whole` as they are. The news of a loss reaches the handler of every
/// part, whenever that was set; a handler may destroy any part. What a part reports, the others
/// hear at once. `leave` of a part ends that part's news; the rank itself leaves when all parts
/// have left, and is lost where `whole` is destroyed before. Takes the handler of `whole` for
/// itself.
std::vector<std::shared_ptr<store>> share(const std::shared_ptr<store>& whole,
                                          const asio::any_io_executor& executor, std::size_t parts);

}  // namespace tandem::mixed
