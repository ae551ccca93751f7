#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>
#include <vector>

namespace tandem::cli {

/// The kinds of fabric between processes: what `--channel` may say.
std::vector<std::string_view> fabric_kinds();

/// The kind that is meant: --rails alone chooses rails. @par Errors `errc::bad_option` where
/// --channel was `given` as one that knows no rails, and `engine` names some.
std::string kind_for(const std::string& asked, bool given, const settings& engine);

/// The fabric of that kind over those who met.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::string kind,
                                                     std::shared_ptr<store> meeting,
                                                     settings engine);

}  // namespace tandem::cli
