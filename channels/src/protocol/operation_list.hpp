#pragma once

#include <tandem/channel.hpp>

namespace tandem::protocol {

/// An intrusive list of operations: no allocation, and an operation can be unlinked without knowing
/// its list. An operation is in at most one list.
class operation_list {
 public:
  operation_list() noexcept { head_.next = head_.previous = &head_; }
  operation_list(const operation_list&) = delete;
  operation_list& operator=(const operation_list&) = delete;

  bool empty() const noexcept { return head_.next == &head_; }
  operation* front() const noexcept { return head_.next; }

  void push_back(operation& op) noexcept { insert(op, *head_.previous, head_); }
  void push_front(operation& op) noexcept { insert(op, head_, *head_.next); }
  operation* pop_front() noexcept {
    if (empty()) return nullptr;
    operation* op = head_.next;
    unlink(*op);
    return op;
  }
  operation* pop_back() noexcept {
    if (empty()) return nullptr;
    operation* op = head_.previous;
    unlink(*op);
    return op;
  }

  static void unlink(operation& op) noexcept {
    if (op.next == nullptr) return;
    op.previous->next = op.next;
    op.next->previous = op.previous;
    op.next = op.previous = nullptr;
  }

  /// Calls `visit(operation&)` for each; the visitor may unlink the operation it is given.
  template <class Visitor>
  void for_each(Visitor visit) {
    for (operation* op = head_.next; op != &head_;) {
      operation* after = op->next;
      visit(*op);
      op = after;
    }
  }

 private:
  static void insert(operation& op, operation& before, operation& after) noexcept {
    op.previous = &before;
    op.next = &after;
    before.next = &op;
    after.previous = &op;
  }

  operation head_;
};

}  // namespace tandem::protocol
