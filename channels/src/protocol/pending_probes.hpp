#pragma once

#include <cstdint>

#include "protocol/operation_list.hpp"
#include "protocol/outbox.hpp"

namespace tandem::protocol {

/// The probes of one end that wait for a message: one list for all flows, since there are few.
class pending_probes {
 public:
  void add(operation& op) noexcept { waiting_.push_back(op); }
  /// There is a message that no receive has taken.
  void message_came(flow_id flow, std::uint64_t bytes, completion_sink& completions) {
    waiting_.for_each([&](operation& op) {
      if (op.flow == flow) complete(op, bytes, completions);
    });
  }
  static void complete(operation& op, std::uint64_t bytes, completion_sink& completions) {
    op.bytes = op.total_bytes = bytes;
    completions.finish(op, {});
  }

  /// Null: none.
  operation* any() const noexcept { return waiting_.empty() ? nullptr : waiting_.front(); }
  template <class Visitor>
  void for_each(Visitor visit) {
    waiting_.for_each(visit);
  }

 private:
  operation_list waiting_;
};

}  // namespace tandem::protocol
