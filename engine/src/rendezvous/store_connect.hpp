// What the two ways into a store, a new job and a shrunk one, have in common, and why they fail.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/detail/connect_failure.hpp>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>
#include <tandem/secret.hpp>
#include <tandem/settings.hpp>

#include "security/credentials.hpp"
#include "security/tls_session.hpp"

namespace tandem::rendezvous {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

/// The first wait between two attempts to connect.
inline constexpr std::chrono::milliseconds first_backoff{10};

/// Connects within three seconds. Empty when connected, else the cause, which is added to `tries`.
/// @par Errors  `limit_exceeded`: no descriptor.
asio::awaitable<error_code> connect(tcp::socket& socket, tcp::endpoint to,
                                    std::chrono::steady_clock::time_point until,
                                    detail::connect_tries& tries);

/// Null: the job has neither secret nor certificates. @par Errors those of `credentials::load`,
/// with this rank.
std::shared_ptr<const trust::credentials> load_credentials(const launch_info& who,
                                                           const settings& options);

/// A fresh key for this incarnation of the job.
secret make_data_key();

/// @param where  the address of the store: "127.0.0.1:29500"
error not_a_store_error(const std::string& where, std::string_view received_text);
/// @param own  what this rank authenticates itself with
error authentication_error(const std::string& where, const trust::tls_session& session,
                           const trust::credentials& own);
/// @param how  how the connection ended; may be empty
error rank_0_lost_error(const std::string& where, const std::string& how);

}  // namespace tandem::rendezvous
