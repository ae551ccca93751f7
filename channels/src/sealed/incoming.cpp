#include "sealed/incoming.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "protocol/frame.hpp"

namespace tandem::sealed {

std::span<std::byte> incoming::space() noexcept {
  const std::size_t here = end_ - begin_;
  // The rest of a record that begins near the end of the buffer would not fit.
  if (begin_ > 0 && begin_ + max_record_bytes > wire_buffer_bytes) {
    std::memmove(wire_.get(), wire_.get() + begin_, here);
    begin_ = 0;
    end_ = here;
  }
  return {wire_.get() + end_, wire_buffer_bytes - end_};
}

std::size_t incoming::complete_record_bytes() const noexcept {
  const std::size_t here = end_ - begin_;
  if (here < length_bytes) return 0;
  const std::size_t whole = opener::text_bytes(wire_.get() + begin_) + overhead_bytes;
  return here >= whole || whole == overhead_bytes ? whole : 0;
}

void incoming::open(cursor& to) {
  while (to.left_bytes() > 0) {
    if (plain_begin_ < plain_end_) {
      const std::span<std::byte> some = to.step(plain_end_ - plain_begin_);
      std::memcpy(some.data(), plain_.get() + plain_begin_, some.size());
      plain_begin_ += some.size();
      continue;
    }
    const std::size_t record_bytes = is_broken_ ? 0 : complete_record_bytes();
    if (record_bytes == 0) return;
    const bool fits = record_bytes - overhead_bytes <= to.left_bytes();
    if (!fits && to.done_bytes() > 0) return;
    if (fits) {
      open_next(record_bytes, to);
      continue;
    }
    if (!plain_) plain_ = std::make_unique_for_overwrite<std::byte[]>(max_text_bytes);
    const iovec all{plain_.get(), max_text_bytes};
    cursor aside(std::span(&all, 1));
    open_next(record_bytes, aside);
    plain_begin_ = 0;
    plain_end_ = is_broken_ ? 0 : aside.done_bytes();
  }
}

void incoming::open_next(std::size_t record_bytes, cursor& to) {
  const std::byte* const first = wire_.get() + begin_;
  if (record_bytes == overhead_bytes) {
    return fail(fmt::format("a sealed record of {} bytes", protocol::take<std::uint32_t>(first)));
  }
  cursor after = to;
  if (!opener_.open({first, record_bytes}, after)) {
    return fail("a sealed record fails authentication: modified, replayed or lost in transit");
  }
  to = after;
  begin_ += record_bytes;
  if (begin_ == end_) begin_ = end_ = 0;
}

void incoming::fail(std::string why) {
  is_broken_ = true;
  why_ = std::move(why);
}

}  // namespace tandem::sealed
