#include <numeric>
#include <tandem/communicator.hpp>
#include <utility>

#include "group.hpp"
#include "messages.hpp"

namespace tandem {
namespace {

std::vector<int> all_of(const fabric& over) {
  std::vector<int> ranks(static_cast<std::size_t>(over.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::uint16_t checked(std::uint16_t group_id) {
  if (group_id != 0) return group_id;
  throw error(errc::bad_input, "group id 0 is reserved for the whole job", "use 1 to 4095");
}

}  // namespace

communicator::communicator(fabric& over, const settings& options)
    : group_(std::make_shared<detail::group>(over, options, all_of(over), 0)) {}

communicator::communicator(fabric& over, const settings& options, std::vector<int> members,
                           std::uint16_t group_id)
    : group_(
          std::make_shared<detail::group>(over, options, std::move(members), checked(group_id))) {}

communicator::communicator(communicator&&) noexcept = default;
communicator& communicator::operator=(communicator&& from) noexcept {
  if (this != &from) {
    close();
    group_ = std::move(from.group_);
  }
  return *this;
}
communicator::~communicator() {
  close();
}

void communicator::close() noexcept {
  if (group_) group_->close();
}

void communicator::throw_moved_from() {
  throw error(errc::bad_input, "this communicator was moved from",
              "use the one that it was moved to");
}

int communicator::rank() const {
  return internals()->rank();
}
int communicator::size() const {
  return internals()->size();
}
int communicator::job_rank(int rank) const {
  return internals()->member(rank);
}
asio::any_io_executor communicator::get_executor() const {
  return internals()->executor();
}
const plan& communicator::agreed() const {
  return internals()->agreed();
}
const backend_description& communicator::backend() const {
  return internals()->backend();
}

void communicator::set_timeout(std::optional<std::chrono::milliseconds> limit) {
  internals()->set_timeout(limit);
}

// Not coroutines themselves: they may be awaited after this object has ended.

asio::awaitable<void> communicator::send(int to, const_view message, std::uint16_t tag) {
  return detail::send_message(internals(), to, message, tag);
}

asio::awaitable<std::size_t> communicator::recv(int from, mutable_view into, std::uint16_t tag) {
  return detail::receive_message(internals(), from, into, tag);
}

asio::awaitable<std::size_t> communicator::probe(int from, std::uint16_t tag) {
  return detail::probe_message(internals(), from, tag);
}

asio::awaitable<received_message> communicator::recv_any(mutable_view into, std::uint16_t tag) {
  return detail::receive_from_any(internals(), into, tag);
}

asio::awaitable<std::size_t> communicator::sendrecv(int to, const_view message, int from,
                                                    mutable_view into, std::uint16_t tag) {
  return detail::exchange_messages(internals(), to, message, from, into, tag);
}

}  // namespace tandem
