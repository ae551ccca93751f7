#include "transports/rails/verbs/slab.hpp"

#include <cstdlib>
#include <new>

namespace tandem::verbs {
namespace {

constexpr std::size_t page_bytes = 4096;

std::size_t whole_pages(std::size_t bytes) noexcept {
  return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace

void slab::release::operator()(std::byte* memory) const noexcept {
  std::free(memory);
}

slab::slab(const queue_depths& has) : has_(has) {
  chunks_in_bytes_ = whole_pages(std::size_t{has.chunks} * has.chunk_bytes);
  const std::size_t chunks_out_bytes = std::size_t{has.chunks} * has.chunk_bytes;
  const std::size_t records_at = whole_pages(chunks_in_bytes_ + chunks_out_bytes);
  const std::size_t updates_at = records_at + 2 * std::size_t{has.records} * has.record_bytes;
  all_bytes_ = whole_pages(updates_at + 2 * std::size_t{has.updates} * credit_update_bytes);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page_bytes, all_bytes_)));
  if (!memory_) throw std::bad_alloc();
  records_ = base() + records_at;
  updates_ = base() + updates_at;
}

}  // namespace tandem::verbs
