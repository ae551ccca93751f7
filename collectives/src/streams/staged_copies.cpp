#include <algorithm>
#include <tandem/detail/staged_copies.hpp>

#include "streams/slot_words.hpp"
#include "streams/stream_kernels.hpp"

namespace tandem::detail {

static_assert(staged_copies::max_words == slot_blocks);

unsigned staged_copies::words_of(std::size_t bytes) noexcept {
  return std::max(blocks_for(bytes), 1U);
}

staged_copies::staged_copies(accelerator& on) : on_(on), kernels_(stream_kernels::of(on)) {}
staged_copies::~staged_copies() = default;

void staged_copies::launch(const copy& what, accelerator::stream on) const {
  staged_copy work{static_cast<char*>(what.to),
                   static_cast<const char*>(what.from),
                   what.bytes,
                   static_cast<const std::uint32_t*>(what.awaited),
                   static_cast<std::uint32_t*>(what.copied),
                   what.number};
  void* arguments[] = {&work};
  on_.launch(kernels_->copy_staged(), words_of(what.bytes), slot_threads, 0, on, arguments);
}

}  // namespace tandem::detail
