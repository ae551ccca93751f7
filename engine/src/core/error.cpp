#include <fmt/format.h>

#include <string_view>
#include <tandem/detail/duration_text.hpp>
#include <tandem/detail/resources.hpp>
#include <tandem/error.hpp>

namespace tandem {
namespace {

std::string_view message_of(errc value) noexcept {
  switch (value) {
    case errc::channel_closed:
      return "the channel is closed";
    case errc::peer_closed:
      return "the peer has closed the channel";
    case errc::peer_lost:
      return "the peer is gone";
    case errc::message_truncated:
      return "the message is longer than the receiver's view";
    case errc::message_cancelled:
      return "the peer cancelled this message";
    case errc::timed_out:
      return "the deadline passed";
    case errc::protocol_violation:
      return "the peer violated the protocol";
    case errc::version_mismatch:
      return "the peer uses another protocol version";
    case errc::not_tandem:
      return "a program other than Tandem answers at this address";
    case errc::unsupported_memory:
      return "this kind of memory is not accessible";
    case errc::limit_exceeded:
      return "a limit is exceeded";
    case errc::rank_missing:
      return "some ranks did not join";
    case errc::rank_taken:
      return "two processes claim one rank";
    case errc::size_mismatch:
      return "the ranks disagree on the size of the job";
    case errc::address_in_use:
      return "the address is in use";
    case errc::unreachable:
      return "the peer is unreachable";
    case errc::bad_option:
      return "an option is invalid";
    case errc::bad_input:
      return "the input is invalid";
    case errc::call_mismatch:
      return "the ranks made different calls";
    case errc::job_mismatch:
      return "the peer belongs to another job";
    case errc::not_trusted:
      return "the peer could not prove that it belongs to this job";
    case errc::device_failed:
      return "an accelerator or its driver reported an error";
    case errc::used_after_fork:
      return "the object belongs to the parent of this process";
    case errc::wrong_thread:
      return "another thread or strand drives the object";
  }
  return "unknown error";
}

class tandem_category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "tandem"; }
  std::string message(int value) const override {
    return std::string(message_of(static_cast<errc>(value)));
  }
};

std::string compose(const error_code& code, const error_context& c) {
  std::string where;
  const auto add = [&where](const std::string& part) {
    if (!where.empty()) where += ", ";
    where += part;
  };
  if (c.rank >= 0) add(fmt::format("rank {}", c.rank));
  if (c.peer >= 0 && c.peer != c.rank) add(fmt::format("peer rank {}", c.peer));
  if (!c.rail.empty()) add(c.rail);
  if (!c.phase.empty()) add(c.phase);
  if (c.bytes_done >= 0 && c.bytes_total >= 0) {
    add(fmt::format("{} of {} bytes", c.bytes_done, c.bytes_total));
  } else if (c.bytes_done >= 0) {
    add(fmt::format("{} bytes", c.bytes_done));
  }
  std::string text = c.detail.empty() ? code.message() : c.detail;
  if (!where.empty()) text += " (" + where + ")";
  if (!c.advice.empty()) text += "; " + c.advice;
  return text;
}

}  // namespace

const boost::system::error_category& category() noexcept {
  static const tandem_category instance;
  return instance;
}

error_code make_error_code(errc value) noexcept {
  return {static_cast<int>(value), category()};
}

error::error(error_code code, error_context context)
    : system_error(code), context_(std::move(context)), text_(compose(code, context_)) {}

error::error(errc code, std::string detail, std::string advice)
    : error(
          make_error_code(code),
          error_context{
              .rail = {}, .phase = {}, .detail = std::move(detail), .advice = std::move(advice)}) {}

error with_context(const error& inner, const error_context& outer) {
  error_context c = inner.context();
  if (c.rank < 0) c.rank = outer.rank;
  if (c.peer < 0) c.peer = outer.peer;
  if (c.rail.empty()) c.rail = outer.rail;
  if (c.phase.empty()) c.phase = outer.phase;
  if (c.bytes_done < 0) c.bytes_done = outer.bytes_done;
  if (c.bytes_total < 0) c.bytes_total = outer.bytes_total;
  if (c.detail.empty()) c.detail = outer.detail;
  if (c.advice.empty()) c.advice = outer.advice;
  return error(inner.code(), std::move(c));
}

std::string describe(const std::exception& failure) {
  const std::string whole = failure.what();
  const auto* by_boost = dynamic_cast<const boost::system::system_error*>(&failure);
  if (by_boost == nullptr || dynamic_cast<const error*>(&failure) != nullptr) return whole;
  // Boost writes "what was done: message [category:number at file:line]".
  const std::string tail = by_boost->code().what();
  if (!whole.ends_with(tail)) return by_boost->code().message();
  return whole.substr(0, whole.size() - tail.size()) + by_boost->code().message();
}

std::string describe(std::exception_ptr failure) {
  if (!failure) return "no error";
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    return e.what();
  } catch (const boost::system::system_error& e) {
    const std::optional<error> known = detail::find_exhausted(e);
    return known ? known->what() : describe(e);
  } catch (const std::exception& e) {
    return describe(e);
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

std::string detail::to_text(std::chrono::nanoseconds time) {
  const double time_s = std::chrono::duration<double>(time).count();
  if (time.count() > 0 && time_s < 0.001) return "less than 0.001 s";
  if (time_s >= 999.5) return fmt::format("{:.0f} s", time_s);
  return fmt::format("{:.3g} s", time_s);
}

}  // namespace tandem
