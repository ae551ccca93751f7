// A pipeline: activations travel from stage to stage, gradients back, while stages compute.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <tandem/tandem.hpp>

namespace asio = boost::asio;

constexpr int micro_batches = 4;
constexpr std::size_t values = 1024;

/// Adds its weight to every value; the values of a micro-batch are all alike here.
class stage : public tandem::pipeline_stage {
 public:
  std::size_t input_bytes(int) const override { return values * sizeof(float); }
  std::size_t output_bytes(int) const override { return values * sizeof(float); }

  asio::awaitable<void> forward(tandem::pipeline_step, tandem::const_view in,
                                tandem::mutable_view out) override {
    const float before = in.bytes == 0 ? 0 : *static_cast<const float*>(in.data);
    std::fill_n(static_cast<float*>(out.data), out.bytes / sizeof(float), before + weight);
    co_return;
  }
  asio::awaitable<void> backward(tandem::pipeline_step, tandem::const_view out,
                                 tandem::mutable_view in) override {
    const float after = out.bytes == 0 ? 1 : *static_cast<const float*>(out.data);
    std::fill_n(static_cast<float*>(in.data), in.bytes / sizeof(float), after);
    gradient += after * values;
    co_return;
  }

  float weight = 1, gradient = 0;
};

asio::awaitable<void> run_rank(tandem::launch_info who) {
  const tandem::settings options = tandem::settings::from_environment();
  const std::shared_ptr<tandem::store> meeting = co_await tandem::store::meet(who, options);
  const std::unique_ptr<tandem::fabric> job = co_await tandem::mixed::make_fabric(meeting, options);
  tandem::communicator all = co_await tandem::make_communicator(*job, options);

  stage mine;
  co_await tandem::run_pipeline(all, tandem::pipeline_kind::one_f_one_b, micro_batches, mine);
  std::cout << "stage " << all.rank() << ": gradient " << mine.gradient << '\n';
  co_await tandem::barrier(all);  // nobody leaves while others still need this rank

  job->close();
  meeting->leave();
}

int main() try {
  const std::optional<tandem::launch_info> who = tandem::find_launch();
  if (!who || who->size != 2) throw std::runtime_error("start it by: tandem run -n 2 -- pipeline");
  asio::io_context context;
  std::future<void> done = asio::co_spawn(context, run_rank(*who), asio::use_future);
  tandem::run(context);
  done.get();
} catch (const std::exception& failure) {
  std::cerr << tandem::describe(failure) << '\n';
  return 1;
}
