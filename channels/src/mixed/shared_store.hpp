#pragma once

#include <memory>
#include <tandem/store.hpp>
#include <vector>

namespace tandem::mixed {

/// Splits a rank's one store into parts for several users, each of which has a store of its own.
///
/// Requests are forwarded to `underlying`. A loss is reported to the handler of every part,
/// whenever the handler was set; a handler may destroy any part. A report of one part reaches the
/// others at once. `leave` of a part ends its notifications; the rank itself leaves when all parts
/// have left, and is lost where `underlying` is destroyed before. Uses the loss handler of
/// `underlying` itself.
std::vector<std::shared_ptr<store>> split_store(const std::shared_ptr<store>& underlying,
                                                const asio::any_io_executor& executor,
                                                std::size_t parts);

}  // namespace tandem::mixed
