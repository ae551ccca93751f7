// A server with many clients in one loop: it answers whichever rank asks, until all have left.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

/// Answers each number with its square.
asio::awaitable<int> serve(tandem::communicator& all) {
  int answered = 0;
  for (;; ++answered) {
    int number = 0;
    tandem::received_message question;
    try {
      question = co_await all.recv_any(tandem::mutable_view(&number, sizeof number));
    } catch (const tandem::error& ended) {
      if (ended.code() != tandem::errc::peer_closed) throw;
      co_return answered;
    }
    const int square = number * number;
    co_await all.send(question.from, tandem::const_view(&square, sizeof square));
  }
}

asio::awaitable<void> ask(tandem::communicator& all) {
  for (int i = 0; i < 100; ++i) {
    const int number = all.rank() + i;
    int square = 0;
    co_await all.send(0, tandem::const_view(&number, sizeof number));
    co_await all.recv(0, tandem::mutable_view(&square, sizeof square));
    if (square != number * number) throw std::runtime_error("a wrong answer");
  }
}

asio::awaitable<void> run_rank(tandem::launch_info who) {
  const tandem::settings options = tandem::settings::from_environment();
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const std::unique_ptr<tandem::fabric> job = co_await tandem::mixed::make_fabric(meeting, options);
  tandem::communicator all(*job, options);
  if (all.rank() == 0) {
    const int answered = co_await serve(all);
    std::cout << "answered " << answered << " questions of " << all.size() - 1 << " clients\n";
  } else {
    co_await ask(all);
  }
  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who) throw std::runtime_error("start it by: tandem run -n 9 -- server");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
