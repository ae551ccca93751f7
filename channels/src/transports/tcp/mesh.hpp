#pragma once

#include <memory>

#include "fabric/fabric_base.hpp"
#include "fabric/hello.hpp"
#include "sealed/connection.hpp"
#include "transports/tcp/link.hpp"

namespace tandem::tcp {

/// A rank's channels to all others, each over one connection.
class mesh : public transport::fabric_base {
 public:
  using fabric_base::fabric_base;
  std::string_view kind() const noexcept override { return "tcp"; }
  asio::awaitable<void> open() override;

 private:
  asio::awaitable<void> connect_peer(int peer) override;
  void take(sealed::connection over, const transport::hello& local, const transport::hello& remote);
};

std::shared_ptr<link> make_link(sealed::connection over, const transport::hello& local,
                                const transport::hello& remote, const settings& options);

}  // namespace tandem::tcp
