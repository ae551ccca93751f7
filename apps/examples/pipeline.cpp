// A pipeline: activations travel from stage to stage, gradients back, and computation overlaps with
// both.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <tandem/tandem.hpp>
#include <vector>

namespace asio = boost::asio;

constexpr int micro_batches = 4;
constexpr std::size_t values = 1024;

/// Adds its weight to every value; the gradient of the weight is the sum of all gradients.
class stage : public tandem::pipeline_stage {
 public:
  std::size_t input_bytes() const override { return values * sizeof(float); }
  std::size_t output_bytes() const override { return values * sizeof(float); }

  asio::awaitable<void> forward(int, tandem::const_view in, tandem::mutable_view out) override {
    const auto* const from = static_cast<const float*>(in.data);  // null on the first stage
    auto* const to = static_cast<float*>(out.data);               // null on the last stage
    for (std::size_t i = 0; i < values && to != nullptr; ++i) {
      to[i] = (from == nullptr ? 0 : from[i]) + weight;
    }
    co_return;
  }
  asio::awaitable<void> backward(int, tandem::const_view out, tandem::mutable_view in) override {
    const auto* const from = static_cast<const float*>(out.data);  // null on the last stage
    auto* const to = static_cast<float*>(in.data);                 // null on the first stage
    for (std::size_t i = 0; i < values; ++i) {
      const float each = from == nullptr ? 1 : from[i];
      gradient += each;
      if (to != nullptr) to[i] = each;
    }
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
