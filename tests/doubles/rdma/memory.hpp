#pragma once

#include "doubles/rdma/objects.hpp"

namespace tandem::test::rdma {

/// The memory regions of all devices, and what their keys allow.
class memory_regions {
 public:
  explicit memory_regions(rdma_double::traffic& seen) : seen_(seen) {}

  /// The errno with which the device refuses such a region, or 0.
  static int refusal(const ibv_pd& in, std::size_t bytes, int access);
  mr& add(ibv_pd& in, void* from, std::size_t bytes, int access);
  void remove(mr& which);
  mr* find(const ibv_mr* which) const { return all_.find(which); }

  bool any_in(const ibv_pd& domain) const;
  std::size_t size() const noexcept { return all_.size(); }
  std::size_t bytes() const;

  // The parts in order, or false where a key does not allow it.
  bool resolve(const qp& of, const std::vector<ibv_sge>& parts, bool to_write, spans& into) const;
  bool resolve_remote(const qp& of, std::uint32_t rkey, std::uint64_t at, std::size_t bytes,
                      int access, spans& into) const;

 private:
  pool<mr> all_;
  std::uint32_t next_key_ = 1;
  rdma_double::traffic& seen_;
};

}  // namespace tandem::test::rdma
