// Copies into views of devices.
#include <algorithm>
#include <cstring>

#include "devices/link.hpp"

namespace tandem::devices {

/// Copies from the piece's slot to a view. The copy owns the piece until it is complete, unless it
/// could not be started.
void link::copy_in(incoming_piece& piece, operation& op, void* to, std::size_t bytes) {
  try {
    piece.by->copy(copier::copy_kind::to_device, to, piece.slot, bytes, piece.landed);
  } catch (const error& why) {
    session_.fail_payload(op, why);
    return;
  }
  piece.op = &op;
  session_.pin(op);
  begin_async();
}

void link::copy_done(incoming_piece& piece, const std::shared_ptr<const error>& failure) {
  operation& op = *piece.op;
  if (failure) session_.fail_payload(op, *failure);
  session_.unpin(op);
  recycle(piece);
  fill_views();
  post_payloads();
  pull_pieces();
  conclude();
}

void link::fill(operation& op, std::unique_ptr<std::byte[]> from, std::size_t bytes) {
  session_.pin(op);
  fills_.push_back({&op, op.view.part(0, bytes), std::move(from), 0});
  fill_views();
}

void link::fill_views() {
  while (!fills_.empty() && fill_some(fills_.front(), fills_.front().from.get())) {
    fills_.pop_front();
  }
}

/// Copies as much as staging has room for. True: all of it is submitted, or has failed, and the
/// job's pin is released.
bool link::fill_some(fill_job& job, const std::byte* from) {
  copier& by = copiers_->of(job.to);
  while (job.done < job.to.bytes) {
    const std::size_t bytes =
        std::min<std::size_t>(job.to.bytes - job.done, session_.agreed().chunk_bytes);
    incoming_piece& piece = take_piece();
    try {
      piece.slot = staging_in_.take(by.of(), bytes);
    } catch (const error& why) {
      session_.fail_payload(*job.op, why);
    }
    if (piece.slot == nullptr) {
      recycle(piece);
      if (job.op->is_over() && job.op->result) break;
      return false;
    }
    piece.by = &by;
    std::memcpy(piece.slot, from + job.done, bytes);
    copy_in(piece, *job.op, static_cast<std::byte*>(job.to.data) + job.done, bytes);
    if (piece.op == nullptr) recycle(piece);
    job.done += bytes;
  }
  session_.unpin(*job.op);
  return true;
}

}  // namespace tandem::devices
