// The channel suite with its two ends in two processes. By default it starts the other process and
// uses TCP on loopback; tests/roce/far runs the two on two hosts with two RDMA rails:
//   far_tests --serve PORT [DEVICE...]       on one: serves the far ends, for ever
//   TANDEM_TEST_FAR="PORT ADDRESS..." TANDEM_TEST_RDMA="DEVICE, DEVICE" far_tests     on the other
// with an ADDRESS of the first host for each lane, and for each lane a local DEVICE: "rxe0 1 1" is
// its name, its port and its GID index.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "far/near.hpp"
#include "far/serve.hpp"

namespace tandem::test::far {
namespace {

asio::ip::tcp::endpoint control;
lanes_of_pair lanes;

awaitable<channel_pair> connect_far(settings options) {
  return connect(control, lanes, std::move(options));
}

INSTANTIATE_TEST_SUITE_P(far, channel_test,
                         testing::Values(channel_case{"two_processes", connect_far, drive::by_asio,
                                                      false, false}),
                         case_name);

void serve_for_ever(asio::io_context& context, asio::ip::tcp::acceptor& acceptor,
                    const lanes_of_pair& by) {
  asio::co_spawn(context, serve(acceptor, by), [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
  context.run();
}

/// The process named by the environment, or one that is started here.
class far_process final : public testing::Environment {
 public:
  void SetUp() override {
    if (const char* const where = std::getenv("TANDEM_TEST_FAR")) {
      std::istringstream words(where);
      std::uint16_t port = 0;
      words >> port;
      for (std::string each; words >> each;) lanes.there.push_back(asio::ip::make_address(each));
      ASSERT_FALSE(lanes.there.empty()) << "TANDEM_TEST_FAR names no address";
      control = {lanes.there.front(), port};
      if (const char* const devices = std::getenv("TANDEM_TEST_RDMA")) {
        std::istringstream list(devices);
        for (std::string each; std::getline(list, each, ',');) lanes.devices.push_back(each);
      }
      return;
    }
    lanes.there.assign(2, asio::ip::address_v4::loopback());
    asio::io_context context{1};
    asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
    control = acceptor.local_endpoint();
    context.notify_fork(asio::io_context::fork_prepare);
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ > 0) return context.notify_fork(asio::io_context::fork_parent);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    context.notify_fork(asio::io_context::fork_child);
    serve_for_ever(context, acceptor, lanes);
    ::_exit(1);
  }
  void TearDown() override {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    int status = 0;
    ::waitpid(child_, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the far end had exited";
  }

 private:
  pid_t child_ = -1;
};

}  // namespace
}  // namespace tandem::test::far

int main(int argc, char** argv) {
  using namespace tandem::test::far;
  namespace asio = boost::asio;
  if (argc > 2 && std::string_view(argv[1]) == "--serve") {
    lanes_of_pair by;
    by.devices.assign(argv + 3, argv + argc);
    by.there.resize(std::max<std::size_t>(by.devices.size(), 2));
    asio::io_context context{1};
    const auto port = static_cast<std::uint16_t>(std::atoi(argv[2]));
    asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::any(), port});
    serve_for_ever(context, acceptor, by);
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new far_process);  // owned and deleted by GoogleTest
  return RUN_ALL_TESTS();
}
