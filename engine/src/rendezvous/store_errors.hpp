// Why a rank and the store do not get together.
#pragma once

#include <string>
#include <string_view>
#include <tandem/error.hpp>

#include "security/credentials.hpp"
#include "security/tls_session.hpp"

namespace tandem::rendezvous {

/// @param where  the address of the store: "127.0.0.1:29500"
error not_a_store_error(const std::string& where, std::string_view received_text);
/// @param own  what this rank authenticates itself with
error authentication_error(const std::string& where, const trust::tls_session& session,
                           const trust::credentials& own);
/// @param how  how the connection ended; may be empty
error rank_0_lost_error(const std::string& where, const std::string& how);

}  // namespace tandem::rendezvous
