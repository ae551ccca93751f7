// Metrics for Prometheus: counters of the library, served over HTTP by the program's own loop.
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;
using asio::ip::tcp;

/// Answers one request; a real server would go on.
asio::awaitable<void> serve(tcp::acceptor& at, const tandem::prometheus_exporter& metrics) {
  tcp::socket client = co_await at.async_accept(asio::use_awaitable);
  std::array<char, 1024> request;
  co_await client.async_read_some(asio::buffer(request), asio::use_awaitable);
  const std::string response =
      "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n\r\n" + metrics.text();
  co_await asio::async_write(client, asio::buffer(response), asio::use_awaitable);
}

/// What Prometheus would do.
asio::awaitable<void> scrape(tcp::endpoint from) {
  tcp::socket server(co_await asio::this_coro::executor);
  co_await server.async_connect(from, asio::use_awaitable);
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  co_await asio::async_write(server, asio::buffer(request), asio::use_awaitable);
  std::string text;
  boost::system::error_code end;
  co_await asio::async_read(server, asio::dynamic_buffer(text),
                            asio::redirect_error(asio::use_awaitable, end));
  std::cout << text;
}

asio::awaitable<void> work(tandem::channel& here, tandem::channel& there) {
  std::vector<float> data(1000, 1.0f);
  co_await here.send(0, data);
  co_await there.recv(0, data);
}

int main() try {
  const auto metrics = std::make_shared<tandem::prometheus_exporter>();
  tandem::set_metrics_sink(metrics);  // before the first fabric or channel is made

  asio::io_context context;
  std::vector<std::unique_ptr<tandem::fabric>> ranks =
      tandem::local::make_fabrics({context.get_executor(), context.get_executor()});
  const auto run = [&context](asio::awaitable<void> what) {
    std::future<void> done = asio::co_spawn(context, std::move(what), asio::use_future);
    context.restart();
    while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) context.run_one();
    done.get();
  };
  const auto all = [&ranks]() -> asio::awaitable<void> {
    tandem::channel& here = co_await ranks[0]->to(1);
    tandem::channel& there = co_await ranks[1]->to(0);
    co_await work(here, there);
  };
  run(all());

  tcp::acceptor at(context, {asio::ip::address_v4::loopback(), 0});
  std::future<void> served = asio::co_spawn(context, serve(at, *metrics), asio::use_future);
  run(scrape(at.local_endpoint()));
  served.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
