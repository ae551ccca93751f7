#include "rendezvous/store_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <type_traits>
#include <utility>

namespace tandem::rendezvous {
namespace {

constexpr std::string_view magic = "tandem";
constexpr std::size_t max_error_text_bytes = 1024;

enum class kind : std::uint8_t {
  hello = 1,
  set,
  get,
  add,
  report,
  leave,
  accepted = 64,
  refused,
  started,
  done,
  values,
  number,
  failed,
  notice,
  leaving
};

class writer {
 public:
  explicit writer(kind what) : out_(frame_header_bytes, '\0') {
    put(static_cast<std::uint8_t>(what));
  }

  template <std::integral Number>
  writer& put(Number value) {
    const auto bits = static_cast<std::make_unsigned_t<Number>>(value);
    for (std::size_t i = 0; i < sizeof(Number); ++i) out_ += static_cast<char>(bits >> (8 * i));
    return *this;
  }

  writer& put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    out_ += text;
    return *this;
  }

  writer& put(const std::vector<std::string>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const std::string& item : list) put(std::string_view(item));
    return *this;
  }

  writer& put(const std::vector<int>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    for (const int item : list) put(static_cast<std::int32_t>(item));
    return *this;
  }

  writer& put(const error& e) {
    const error_context& c = e.context();
    const auto& where = e.code().category();
    const bool system = where == boost::system::system_category();
    const bool portable = system || where == category();
    // Other error categories exist in this process only: the text is sent, not the number.
    const int code = portable ? e.code().value() : EIO;
    put(static_cast<std::uint8_t>(where == category() ? 0 : 1));
    put(static_cast<std::int32_t>(code)).put(c.rank).put(c.peer);
    put(c.bytes_done).put(c.bytes_total);
    const std::string detail = c.detail.empty() && !portable ? e.code().message() : c.detail;
    for (const std::string* text : {&c.rail, &c.phase, &detail, &c.advice}) {
      put(std::string_view(*text).substr(0, max_error_text_bytes));
    }
    return *this;
  }

  std::string take() {
    const auto length = static_cast<std::uint32_t>(out_.size() - frame_header_bytes);
    for (std::size_t i = 0; i < frame_header_bytes; ++i) {
      out_[i] = static_cast<char>(length >> (8 * i));
    }
    return std::move(out_);
  }

 private:
  std::string out_;
};

/// Reads fields. After one that does not fit, all others read as zero and `good` is false.
class reader {
 public:
  explicit reader(std::string_view bytes) : rest_(bytes) {}

  template <std::integral Number>
  Number number() {
    if (rest_.size() < sizeof(Number)) {
      good_ = false;
      rest_ = {};
      return 0;
    }
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(Number); ++i) {
      bits |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
    }
    rest_.remove_prefix(sizeof(Number));
    return static_cast<Number>(bits);
  }

  std::string text() {
    const auto bytes = number<std::uint32_t>();
    if (bytes > rest_.size()) {
      good_ = false;
      rest_ = {};
      return {};
    }
    std::string value(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    return value;
  }

  std::vector<std::string> list() {
    std::vector<std::string> items;
    const auto count = number<std::uint32_t>();
    // Each item takes at least four bytes: a false count is rejected before memory is allocated.
    if (count > rest_.size() / 4) good_ = false;
    for (std::uint32_t i = 0; good_ && i < count; ++i) items.push_back(text());
    return items;
  }

  std::vector<int> numbers() {
    std::vector<int> items;
    const auto count = number<std::uint32_t>();
    if (count > rest_.size() / 4) good_ = false;
    for (std::uint32_t i = 0; good_ && i < count; ++i) items.push_back(number<std::int32_t>());
    return items;
  }

  error reason() {
    const auto& where = number<std::uint8_t>() == 0 ? category() : boost::system::system_category();
    const error_code code(number<std::int32_t>(), where);
    error_context c;
    c.rank = number<std::int32_t>();
    c.peer = number<std::int32_t>();
    c.bytes_done = number<std::int64_t>();
    c.bytes_total = number<std::int64_t>();
    for (std::string* field : {&c.rail, &c.phase, &c.detail, &c.advice}) {
      *field = text();
      // An error is one line, whatever the peer sends.
      std::replace_if(
          field->begin(), field->end(), [](char ch) { return ch >= 0 && ch < ' '; }, ' ');
    }
    return error(code, std::move(c));
  }

  bool good() const { return good_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

template <class... Cases>
struct overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
overloaded(Cases...) -> overloaded<Cases...>;

}  // namespace

std::string encode_opening(std::uint16_t version) {
  std::string bytes(magic);
  bytes += static_cast<char>(version & 0xff);
  bytes += static_cast<char>(version >> 8);
  return bytes;
}

bool is_opening(std::string_view so_far) {
  const std::size_t known = std::min(so_far.size(), magic.size());
  return known > 0 && so_far.substr(0, known) == magic.substr(0, known);
}

std::string encode(const store_request& request) {
  const overloaded cases{
      [](const hello_request& r) {
        writer to(kind::hello);
        return to.put(r.rank)
            .put(r.size)
            .put(r.limit_ms)
            .put(r.left_ms)
            .put(r.job)
            .put(r.meeting_port)
            .take();
      },
      [](const set_request& r) {
        return writer(kind::set).put(r.id).put(r.key).put(r.value).take();
      },
      [](const get_request& r) {
        return writer(kind::get).put(r.id).put(r.limit_ms).put(r.keys).take();
      },
      [](const add_request& r) {
        return writer(kind::add).put(r.id).put(r.key).put(r.amount).take();
      },
      [](const report_request& r) { return writer(kind::report).put(r.reason).take(); },
      [](const leave_request&) { return writer(kind::leave).take(); }};
  return std::visit(cases, request);
}

std::string encode(const store_reply& reply) {
  const overloaded cases{
      [](const accepted_reply&) { return writer(kind::accepted).take(); },
      [](const refused_reply& r) { return writer(kind::refused).put(r.reason).take(); },
      [](const started_reply& r) {
        return writer(kind::started).put(r.data_key).put(r.members).put(r.ports).take();
      },
      [](const done_reply& r) { return writer(kind::done).put(r.id).take(); },
      [](const values_reply& r) { return writer(kind::values).put(r.id).put(r.values).take(); },
      [](const number_reply& r) { return writer(kind::number).put(r.id).put(r.value).take(); },
      [](const failed_reply& r) { return writer(kind::failed).put(r.id).put(r.reason).take(); },
      [](const notice_reply& r) { return writer(kind::notice).put(r.reason).take(); },
      [](const leaving_reply&) { return writer(kind::leaving).take(); }};
  return std::visit(cases, reply);
}

// Braced initialisers are evaluated from left to right: in the order of the wire format.
std::optional<store_request> decode_request(std::string_view body) {
  reader from(body);
  std::optional<store_request> request;
  switch (static_cast<kind>(from.number<std::uint8_t>())) {
    case kind::hello:
      request = hello_request{from.number<std::int32_t>(),
                              from.number<std::int32_t>(),
                              from.number<std::uint32_t>(),
                              from.number<std::uint32_t>(),
                              from.text(),
                              from.number<std::uint16_t>()};
      break;
    case kind::set:
      request = set_request{from.number<std::uint64_t>(), from.text(), from.text()};
      break;
    case kind::get:
      request =
          get_request{from.number<std::uint64_t>(), from.number<std::uint32_t>(), from.list()};
      break;
    case kind::add:
      request = add_request{from.number<std::uint64_t>(), from.text(), from.number<std::int64_t>()};
      break;
    case kind::report:
      request = report_request{from.reason()};
      break;
    case kind::leave:
      request = leave_request{};
      break;
    default:
      return {};
  }
  if (!from.good()) return {};
  return request;
}

std::optional<store_reply> decode_reply(std::string_view body) {
  reader from(body);
  std::optional<store_reply> reply;
  switch (static_cast<kind>(from.number<std::uint8_t>())) {
    case kind::accepted:
      reply = accepted_reply{};
      break;
    case kind::refused:
      reply = refused_reply{from.reason()};
      break;
    case kind::started:
      reply = started_reply{from.text(), from.numbers(), from.numbers()};
      break;
    case kind::done:
      reply = done_reply{from.number<std::uint64_t>()};
      break;
    case kind::values:
      reply = values_reply{from.number<std::uint64_t>(), from.list()};
      break;
    case kind::number:
      reply = number_reply{from.number<std::uint64_t>(), from.number<std::int64_t>()};
      break;
    case kind::failed:
      reply = failed_reply{from.number<std::uint64_t>(), from.reason()};
      break;
    case kind::notice:
      reply = notice_reply{from.reason()};
      break;
    case kind::leaving:
      reply = leaving_reply{};
      break;
    default:
      return {};
  }
  if (!from.good()) return {};
  return reply;
}

std::string printable(std::string_view bytes) {
  std::string text(bytes.substr(0, 32));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '.');
  if (bytes.size() > text.size()) text += "...";
  return text;
}

void frame_splitter::feed(std::string_view bytes) {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  buffer_ += bytes;
  if (state_ == state::opening) check_opening();
}

void frame_splitter::check_opening() {
  const std::string_view received = buffer_;
  const std::size_t known = std::min(received.size(), magic.size());
  if (received.substr(0, known) != magic.substr(0, known)) {
    state_ = state::foreign;
  } else if (received.size() >= opening_bytes) {
    version_ = static_cast<std::uint16_t>(static_cast<unsigned char>(received[6]) |
                                          static_cast<unsigned char>(received[7]) << 8);
    state_ = version_ == store_version ? state::open : state::other_version;
    begin_ = opening_bytes;
  }
}

std::optional<std::string_view> frame_splitter::next() {
  if (state_ != state::open) return {};
  const std::string_view received = rest();
  if (received.size() < frame_header_bytes) return {};
  std::size_t length = 0;
  for (std::size_t i = 0; i < frame_header_bytes; ++i) {
    length |= std::size_t{static_cast<unsigned char>(received[i])} << (8 * i);
  }
  if (length == 0 || length > limit_bytes_) {
    state_ = state::broken;
    return {};
  }
  if (received.size() < frame_header_bytes + length) return {};
  begin_ += frame_header_bytes + length;
  return received.substr(frame_header_bytes, length);
}

error reason_at(int rank, const error& reported) {
  const error_context& from = reported.context();
  const bool is_given_up = from.peer == rank && from.rank >= 0 && from.rank != rank;
  if (!is_given_up || reported.code() != errc::peer_lost) return reported;
  error_context here = from;
  here.rank = rank;
  here.peer = from.rank;
  here.detail = fmt::format("rank {} has given up this rank: {}", from.rank, from.detail);
  here.advice =
      "it was stopped or busy for longer than others wait (TANDEM_PEER_TIMEOUT_S), or its network "
      "was cut; the job has ended on all ranks";
  return error(reported.code(), std::move(here));
}

}  // namespace tandem::rendezvous
