// Addresses from text: numeric ones, and name resolution that can be given up.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::detail {

/// The host as a numeric address, IPv4-mapped IPv6 addresses as IPv4; empty for a name, which has
/// to be resolved.
std::optional<boost::asio::ip::address> numeric_address(const std::string& host);

/// An IPv4-mapped IPv6 address as IPv4: "::ffff:10.0.0.1" is 10.0.0.1.
boost::asio::ip::address unmapped(const boost::asio::ip::address& address);

/// The addresses of a name, each once, or why there are none.
struct name_addresses {
  std::vector<boost::asio::ip::address> found;
  std::string why_none;  ///< "Name or service not known"; empty: there are some
};

/// Asks the system's resolver, which blocks: many seconds where no name server answers.
name_addresses resolve_now(const std::string& host);

/// One question to the resolver, on a thread of its own. The destructor of the context does not
/// wait for the answer, unlike with Asio's resolver.
class name_lookup {
 public:
  /// @par Errors thrown  `errc::limit_exceeded`: no thread or descriptor for it.
  name_lookup(const boost::asio::any_io_executor& executor, const std::string& host);
  name_lookup(const name_lookup&) = delete;
  name_lookup& operator=(const name_lookup&) = delete;
  ~name_lookup();

  /// Empty: no answer yet. Never blocks.
  std::optional<name_addresses> answer() const;
  /// Completes with the answer, or without one at the deadline. @pre One call at a time; this
  /// object outlives it.
  boost::asio::awaitable<std::optional<name_addresses>> until(
      std::chrono::steady_clock::time_point deadline);

 private:
  struct question;
  struct notification;
  const std::shared_ptr<question> question_;  ///< shared with the thread
  const std::shared_ptr<notification> notification_;
};

}  // namespace tandem::detail
