#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tandem/log.hpp>
#include <tandem/secret.hpp>

namespace tandem {

/// How long messages go between ranks that share memory.
enum class single_copy : std::uint8_t {
  automatic,  ///< as `on` where that is measured to be faster, else as `off`
  off,        ///< through a ring, copied by both ranks at once
  on,         ///< read where they lie, by the receiver alone, where the kernel allows it
};

/// Whether rails use RDMA.
enum class rdma_use : std::uint8_t {
  automatic,  ///< a rail whose both ends have it uses it; TCP rails stand by
  on,         ///< as `automatic`, and a chosen rail without it is an error
  off,        ///< nobody looks for it
  both,       ///< RDMA and TCP rails serve a message together
};

/// Every knob of the engine with its default. Set it in code, or let `from_environment` fill it, or
/// let a program pass its command line to `set`; later wins. `option_table` is the one place that
/// documents them.
struct settings {
  /// No aggregate: GCC 12 copies temporary ones byte by byte into a coroutine that takes them.
  settings() {}

  std::size_t eager_bytes = 64 * 1024;
  std::size_t chunk_bytes = 1024 * 1024;
  std::size_t credit_bytes = 4 * 1024 * 1024;
  std::size_t max_flows = 4096;
  std::size_t socket_buffer_bytes = 0;
  std::string congestion;  ///< of TCP: a name the kernel knows, or "system"; empty: by itself
  std::string rails;  ///< which NICs are rails, in words; "auto": by itself; empty: not asked for
  rdma_use rdma = rdma_use::automatic;            ///< of the rails
  std::size_t rail_streams = 1;                   ///< TCP streams on each rail
  std::chrono::milliseconds rail_timeout{500};    ///< of silence, while another rail is heard
  std::chrono::milliseconds peer_timeout{2'000};  ///< of silence on every rail
  /// CRC32C of payloads on rails: 0 of none, 1 on TCP rails that leave this host, 2 of all. Within
  /// a host there is no wire that could damage them: the kernel's own checksums are left out there
  /// too. RDMA guards each of its packets.
  std::size_t checksum = 1;
  bool encrypt = false;  ///< AES-256-GCM of all that rails and tcp carry
  single_copy shm_single_copy = single_copy::automatic;
  /// shm: each way; rounded up to a power of two; 0: by the caches and the number of ranks
  std::size_t shm_ring_bytes = 0;
  /// devices: copy engines read a peer's device memory on the same host; the same on both ranks.
  bool peer_copies = true;
  /// devices: where that cannot be, ranks of one host share the pinned memory between, in place of
  /// copying it from one's to the other's.
  bool shared_staging = true;
  /// devices: NICs of rails over RDMA read and write device memory by themselves where they can, in
  /// place of taking it from pinned memory.
  bool gpudirect = true;
  std::chrono::microseconds spin{50};
  std::chrono::milliseconds operation_timeout{300'000};
  std::chrono::milliseconds meet_timeout{30'000};
  std::size_t collective_chunk_bytes = 512 * 1024;
  std::string plan;     ///< what is pinned of the agreed plan, in words; empty: nothing
  std::string profile;  ///< file of measured latencies and rates, in place of a probe
  std::string host;     ///< name that the ranks of one host share; empty: by itself
  log_level log = log_level::warning;
  bool insecure = false;  ///< listen beyond loopback though no job secret protects the connections
  std::string secret_file;  ///< the secret that all ranks of the job share; of mode 0600 or 0400
  std::string certificate_file;  ///< PEM, with the chain up to one of `authorities_file`
  std::string key_file;          ///< PEM, the key of the certificate
  std::string authorities_file;  ///< PEM: whom these have signed is trusted as a rank
  /// Where there is no file: TANDEM_SECRET. No option sets or shows it.
  secret job_secret;

  /// `base` with every `TANDEM_*` variable that is set. @par Errors `errc::bad_option`: which, why,
  /// the nearest right one. An unknown TANDEM_ variable is logged as a warning, not refused.
  static settings from_environment(settings base);
  static settings from_environment();
  /// Sets one option by its name (`eager-bytes`) from text (`64K`). @par Errors `errc::bad_option`;
  /// unchanged.
  void set(std::string_view name, std::string_view value);
  /// Checks what no single option can: how they fit together. `from_environment` does it by itself;
  /// call it after the last `set`. @par Errors `errc::bad_option`: the two options and what to
  /// change.
  void check() const;
};

/// One option as people read it.
struct option {
  std::string_view name;         ///< command line: --eager-bytes
  std::string_view environment;  ///< TANDEM_EAGER_BYTES
  std::string_view unit;         ///< bytes, us, s, words to choose from
  std::string_view help;
  std::string (*get)(const settings&);
  void (*set)(settings&, std::string_view);
};
std::span<const option> option_table() noexcept;

/// "64K", "16M", "1G" (powers of 1024) or a plain number of bytes. @par Errors `errc::bad_option`.
std::size_t parse_bytes(std::string_view text);
/// The shortest text that `parse_bytes` reads as so many bytes: "64K".
std::string format_bytes(std::size_t bytes);
/// The candidate nearest to `word` by edit distance, or empty where none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);
/// Advice on a word that is none of these: "did you mean ring?", or, where none is near, "choose
/// ring, tree".
std::string near_or_all(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tandem
