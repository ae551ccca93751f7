#pragma once

#include <cstdint>
#include <tandem/detail/trust.hpp>
#include <tandem/secret.hpp>

#include "fabric/hello.hpp"

namespace tandem::transport {

/// How two ends with a key (`hello::keyed`) authenticate each other before any other byte is
/// accepted:
///
///   connector              listener
///   hello, its nonce  ->
///                     <-   hello, its nonce; unless it refuses: proof `listener`
///   proof `connector` ->
///                     <-   proof `accepted` or `crossed`: its decision, after both proofs
///
/// A proof is HMAC-SHA256 with the key over the word of its step and both hellos as they were on
/// the wire, the connector's first. Fresh nonces on both sides defeat replay, the words defeat
/// reflection. Where both hellos say `sealed`, all that follows is sealed with keys of this
/// connection (`sealed::derive_keys`). Where not, an attacker who relays bytes between two ends
/// that have the key is not detected: the bytes that follow are neither secret nor authenticated.
enum class step : std::uint8_t { listener, connector, accepted, crossed };

using proof = trust::digest;

proof prove(step what, const secret& key, const wire_hello& of_connector,
            const wire_hello& of_listener);

/// Takes constant time.
bool is_proof(const proof& given, step what, const secret& key, const wire_hello& of_connector,
              const wire_hello& of_listener);

/// The key of `connect` and `listener`, from the secret of the settings: empty where there is none.
secret pair_key(const settings& options);

/// @par Errors `errc::bad_option` where the settings ask for encryption and there is no key.
void check_encryption(const settings& options, const secret& key);

}  // namespace tandem::transport
