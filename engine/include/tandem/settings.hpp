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

#pragma GCC visibility push(default)

namespace tandem {

/// How long messages are copied between ranks that share memory.
enum class single_copy : std::uint8_t {
  automatic,  ///< `on` if measured to be faster, else `off`
  off,        ///< through a ring in shared memory: two concurrent copies
  on,         ///< the receiver reads the sender's memory, if the kernel permits
};

/// Whether rails use RDMA.
enum class rdma_use : std::uint8_t {
  automatic,  ///< rails with RDMA at both ends use it; TCP rails are spare
  on,         ///< as `automatic`; a selected rail without RDMA is an error
  off,        ///< RDMA devices are not probed
  both,       ///< RDMA and TCP rails carry a message together
};

/// All options of the engine with their defaults. Set them in code, from the environment
/// (`from_environment`) or from a command line (`set`); the last one wins. `option_table` documents
/// them.
struct settings {
  /// Not an aggregate: GCC 12 copies temporary aggregates bytewise into a coroutine's frame.
  settings() {}

  std::size_t eager_bytes = 64 * 1024;
  std::size_t chunk_bytes = 1024 * 1024;
  std::size_t credit_bytes = 4 * 1024 * 1024;
  std::size_t max_flows = 4096;
  std::size_t socket_buffer_bytes = 0;
  std::string congestion;  ///< TCP congestion control, or "system"; empty: automatic
  std::string rails;       ///< which NICs are rails; "auto": automatic; empty: none requested
  rdma_use rdma = rdma_use::automatic;            ///< use by rails
  std::size_t rail_streams = 1;                   ///< TCP streams on each rail
  std::chrono::milliseconds rail_timeout{500};    ///< silence of a rail, while another is alive
  std::chrono::milliseconds peer_timeout{2'000};  ///< silence of all rails
  /// CRC32C of payloads on rails: 0: none, 1: on TCP rails to other hosts, 2: on all. Within a host
  /// there is no wire that could corrupt them; the kernel omits its checksums there too. RDMA
  /// protects each of its packets by a CRC.
  std::size_t checksum = 1;
  bool encrypt = false;  ///< AES-256-GCM for all that rails and tcp carry
  single_copy shm_single_copy = single_copy::automatic;
  /// shm: ring size per direction, rounded up to a power of two; 0: from cache sizes and the number
  /// of ranks
  std::size_t shm_ring_bytes = 0;
  /// devices: copy engines read a peer's device memory on the same host; set alike on both ranks.
  bool peer_copies = true;
  /// devices: if that is not possible, ranks of one host share the pinned staging memory, instead
  /// of copying between a buffer of each.
  bool shared_staging = true;
  /// devices: NICs of RDMA rails access device memory directly if they can (GPUDirect RDMA),
  /// instead of staging it through pinned memory.
  bool gpudirect = true;
  /// C interface: groups whose ranks are one island of GPUs use the vendor's library.
  bool vendor_library = true;
  /// C interface: ranks with different numbers are never in one island, even with the same vendor.
  std::size_t island = 0;
  /// C interface: streams, not threads, wait for operations that channels carry. Not with kernels
  /// that are loaded on first use, which wait for every stream (CUDA_MODULE_LOADING=EAGER).
  bool stream_waits = false;
  /// C interface: operations on device memory that channels carry go through pinned memory in the
  /// order of streams if no rank has more data than this; 0: none. The lowest of all ranks holds.
  std::size_t stream_staging_bytes = std::size_t{64} << 10;
  /// C interface: of calls that a stream may carry out, messages and collectives between GPUs of
  /// one host that reach each other, of at most so many bytes, are carried out by kernels: messages
  /// of up to 8 MiB, and collectives, of more than two ranks of up to 8 MiB; 0: none. The lowest of
  /// all ranks holds.
  std::size_t stream_kernel_bytes = std::size_t{1} << 30;
  /// C interface: the same between GPUs that do not reach each other's memory, by kernels whose
  /// data the loops of both ranks relay through pinned memory; 0: none. The lowest of all ranks
  /// holds.
  std::size_t stream_relay_bytes = 0;
  std::chrono::microseconds spin{50};
  std::chrono::milliseconds operation_timeout{300'000};
  std::chrono::milliseconds meet_timeout{30'000};
  /// The job may go on after a loss (`store::shrink`) while so many ranks are left; 0: it may not.
  std::size_t min_survivors = 0;
  std::size_t collective_chunk_bytes = 512 * 1024;
  std::string plan;     ///< pinned choices of the plan; empty: none
  std::string profile;  ///< file of measured latencies and rates that replaces the probe
  bool reproducible =
      true;          ///< the order of a reduction does not follow from what a probe measures
  std::string host;  ///< name that the ranks of one host share; empty: automatic
  log_level log = log_level::warning;
  bool insecure = false;         ///< allows listening beyond loopback without a job secret
  std::string secret_file;       ///< secret shared by all ranks of the job; mode 0600 or 0400
  std::string certificate_file;  ///< PEM, with its chain to one of `authorities_file`
  std::string key_file;          ///< PEM, private key of the certificate
  std::string authorities_file;  ///< PEM: peers with a certificate signed by these are trusted
  /// Used if there is no file: TANDEM_SECRET. No option sets or shows it.
  secret job_secret;

  /// `base` with every `TANDEM_*` variable that is set. @par Errors `errc::bad_option`: the
  /// variable, the reason and the nearest valid one. An unknown TANDEM_ variable is only logged
  /// (warning).
  static settings from_environment(settings base);
  static settings from_environment();
  /// Sets one option by its name (`eager-bytes`) from text (`64K`). @par Errors `errc::bad_option`;
  /// unchanged.
  void set(std::string_view name, std::string_view value);
  /// Checks the consistency of options with each other. `from_environment` calls it; call it after
  /// the last `set`. @par Errors `errc::bad_option`: the two options and what to change.
  void check() const;
};

/// Documentation and text conversion of one option.
struct option {
  std::string_view name;         ///< command line: --eager-bytes
  std::string_view environment;  ///< TANDEM_EAGER_BYTES
  std::string_view unit;         ///< bytes, us, s, or the valid words
  std::string_view help;
  std::string (*get)(const settings&);
  void (*set)(settings&, std::string_view);
};
/// All options.
std::span<const option> option_table() noexcept;

/// "64K", "16M", "1G" (powers of 1024) or a plain number of bytes. @par Errors `errc::bad_option`.
std::size_t parse_bytes(std::string_view text);
/// The shortest text that `parse_bytes` parses to this number: "64K".
std::string format_bytes(std::size_t bytes);
/// The candidate nearest to `word` by edit distance, or empty if none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);
/// Advice for an invalid word: "did you mean ring?", or, if no candidate is near, "choose ring,
/// tree".
std::string suggestion_for(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace tandem

#pragma GCC visibility pop
