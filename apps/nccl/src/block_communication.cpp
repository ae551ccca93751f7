// The exported functions that gather, scatter and exchange blocks of ranks.
#include <fmt/format.h>

#include "posting.hpp"

using namespace tandem::nccl_abi;

TANDEM_NCCL_FUNCTION(result, ncclGather,
                     (const void* from, void* into, std::size_t count, int type, int root,
                      comm over, stream on)) {
  constexpr auto name = "ncclGather";
  return post(function::gather, over, on, name, from, into, count, type, root, 0,
              [&](comm_rank& by, posting& call) {
                checked_rank(by, root, name, "root");
                const std::size_t block_bytes = count * bytes_of(type);
                messages all{by, call, type};
                const bool is_root = by.rank() == root;
                if (call.is_of_library(function::gather)) {
                  buffer_at(by, from, count, type);
                  if (is_root) buffer_at(by, into, count, type);
                  return call.library(function::gather, from, into, count, type, root);
                }
                std::byte* const own = offset(into, static_cast<std::size_t>(root) * block_bytes);
                if (!is_root) all.send(from, count, root);
                if (is_root && from != own) all.move_own(from, own, count);
                for (int peer = 0; is_root && peer < by.size(); ++peer) {
                  if (peer == root) continue;
                  all.receive(offset(into, static_cast<std::size_t>(peer) * block_bytes), count,
                              peer);
                }
              });
}

TANDEM_NCCL_FUNCTION(result, ncclScatter,
                     (const void* from, void* into, std::size_t count, int type, int root,
                      comm over, stream on)) {
  constexpr auto name = "ncclScatter";
  return post(function::scatter, over, on, name, from, into, count, type, root, 0,
              [&](comm_rank& by, posting& call) {
                checked_rank(by, root, name, "root");
                const std::size_t block_bytes = count * bytes_of(type);
                messages all{by, call, type};
                const bool is_root = by.rank() == root;
                if (call.is_of_library(function::scatter)) {
                  buffer_at(by, into, count, type);
                  if (is_root) buffer_at(by, from, count, type);
                  return call.library(function::scatter, from, into, count, type, root);
                }
                const std::byte* const own =
                    offset(from, static_cast<std::size_t>(root) * block_bytes);
                if (is_root && into != own) all.move_own(own, into, count);
                for (int peer = 0; is_root && peer < by.size(); ++peer) {
                  if (peer == root) continue;
                  all.send(offset(from, static_cast<std::size_t>(peer) * block_bytes), count, peer);
                }
                if (!is_root) all.receive(into, count, root);
              });
}

TANDEM_NCCL_FUNCTION(result, ncclAlltoAll,
                     (const void* from, void* into, std::size_t count, int type, comm over,
                      stream on)) {
  constexpr auto name = "ncclAlltoAll";
  return post(
      function::all_to_all, over, on, name, from, into, count, type, -1, 0,
      [&](comm_rank& by, posting& call) {
        const std::size_t block_bytes = count * bytes_of(type);
        const std::size_t all_bytes = static_cast<std::size_t>(by.size()) * block_bytes;
        // In place, what arrives would overwrite what is still to be sent.
        const void* source = from;
        if (from == into && all_bytes != 0) {
          void* const to = by.copy_for(on, all_bytes);
          source = to;
          if (by.is_one_island()) {
            call.library(function::copy, from, to, all_bytes, uint8);
          } else {
            call.before([&by, to, from, all_bytes, on] { copy_on(by, to, from, all_bytes, on); });
          }
        }
        if (call.is_of_library(function::all_to_all)) {
          return call.library(function::all_to_all, source, into, count, type);
        }
        messages all{by, call, type};
        for (int peer = 0; peer < by.size(); ++peer) {
          const std::size_t at = static_cast<std::size_t>(peer) * block_bytes;
          if (peer == by.rank()) {
            all.move_own(offset(source, at), offset(into, at), count);
            continue;
          }
          all.send(offset(source, at), count, peer);
          all.receive(offset(into, at), count, peer);
        }
      });
}

TANDEM_NCCL_FUNCTION(result, ncclAlltoAllv,
                     (const void* from, const std::size_t* sent, const std::size_t* send_at,
                      void* into, const std::size_t* received, const std::size_t* receive_at,
                      int type, comm over, stream on)) {
  constexpr auto name = "ncclAlltoAllv";
  return post(over, on, name, [&](comm_rank& by, posting& call) {
    const std::size_t element_bytes = bytes_of(type);
    for (const std::size_t* const each : {sent, send_at, received, receive_at}) {
      if (each == nullptr) refuse(invalid_argument, fmt::format("{}: a list is NULL", name));
    }
    messages all{by, call, type};
    for (int peer = 0; peer < by.size(); ++peer) {
      const void* const block = offset(from, send_at[peer] * element_bytes);
      void* const place = offset(into, receive_at[peer] * element_bytes);
      if (peer == by.rank() && sent[peer] == received[peer]) {
        all.move_own(block, place, sent[peer]);
        continue;
      }
      all.send(block, sent[peer], peer);
      all.receive(place, received[peer], peer);
    }
  });
}

// RCCL's names.
TANDEM_NCCL_ALIAS(ncclAllToAll, ncclAlltoAll);
TANDEM_NCCL_ALIAS(ncclAllToAllv, ncclAlltoAllv);
