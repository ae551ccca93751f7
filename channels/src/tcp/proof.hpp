#pragma once

#include <cstdint>
#include <tandem/secret.hpp>
#include <tandem/trust.hpp>

#include "tcp/hello.hpp"

namespace tandem::tcp {

/// How two ends with a key (`hello::keyed`) prove it before a byte more is believed:
///
///   connector              listener
///   hello, its nonce  ->
///                     <-   hello, its nonce; where that is no refusal: proof `listener`
///   proof `connector` ->
///                     <-   proof `welcome` or `crossed`: its decision, when all is proven
///
/// A proof is HMAC-SHA256 with the key over the word of its step and both hellos as they were on
/// the wire, the connector's first. Fresh nonces on both sides make a recorded one worth nothing,
/// the words a reflected one. Where both hellos say `sealed`, all that follows is sealed with keys
/// of this connection (`sealed::derive_keys`). Where not, who only passes bytes on between two ends
/// that have the key is not found out: the bytes that follow are neither secret nor signed.
enum class step : std::uint8_t { listener, connector, welcome, crossed };

using proof = trust::digest;

proof prove(step what, const secret& key, const wire_hello& of_connector,
            const wire_hello& of_listener);

/// In a time that tells nothing.
bool is_proof(const proof& given, step what, const secret& key, const wire_hello& of_connector,
              const wire_hello& of_listener);

/// The key of `connect` and `listener`, from the secret of the settings: empty where there is none.
secret pair_key(const settings& options);

/// @par Errors `errc::bad_option` where the settings want connections encrypted and there is no key
///   to do it with.
void check_encryption(const settings& options, const secret& key);

}  // namespace tandem::tcp
