#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/fabric.hpp>
#include <tandem/launch.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>
#include <vector>

namespace tandem::cli {

/// The kinds of fabric between processes: the values of `--channel`.
std::vector<std::string_view> fabric_kinds();

/// The kind to use: --rails without --channel selects rails. @par Errors `errc::bad_option` if
/// --channel was `given` as a kind that does not support rails, and `engine` names some.
std::string fabric_kind_for(const std::string& asked, bool given, const settings& engine);

/// Makes the fabric of that kind between the ranks of the rendezvous.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::string kind,
                                                     std::shared_ptr<store> meeting,
                                                     settings engine);

/// Checks the files that the engine reads only after the rendezvous: profile, secret, certificates.
/// @par Errors  `errc::bad_input`: which file, and why.
void check_inputs(const settings& engine);

/// Runs the `checks` of one rank. If they throw, this rank joins the job only to report the error
/// to the other ranks, so that all end at once with the same error; then it rethrows.
void check_as_rank(const launch_info& who, const settings& engine,
                   const std::function<void()>& checks);

}  // namespace tandem::cli
