#include "rank_environment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <random>
#include <tandem/detail/trust.hpp>

namespace tandem::launcher {
namespace {

/// Distinguishes jobs, and incarnations of one job.
std::string job_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

/// Authenticates the ranks of this job.
std::string job_secret() {
  trust::digest bytes;
  trust::random_bytes(bytes);
  std::string text;
  for (const std::byte b : bytes) text += fmt::format("{:02x}", static_cast<int>(b));
  wipe(bytes);
  return text;
}

/// Sets the generated secret unless the user has set a secret or certificates. It is passed as a
/// variable, because every user of the machine can read command lines.
void set_secret(std::map<std::string, std::string>& variables, const std::string& generated) {
  for (const char* const name :
       {"TANDEM_SECRET", "TANDEM_SECRET_FILE", "TANDEM_CERTIFICATE_FILE"}) {
    const auto found = variables.find(name);
    if (found != variables.end() && !found->second.empty() && found->second != "none") return;
  }
  variables["TANDEM_SECRET"] = generated;
}

}  // namespace

job_environment job_environment::make(std::uint16_t port) {
  return {port, job_name(), job_secret()};
}

std::vector<std::string> rank_environment(const launch_plan& plan, int rank,
                                          const job_environment& job_env) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  // An outer torchrun may have described its own store agent; this job has none.
  std::erase_if(variables, [](const auto& v) { return v.first.starts_with("TORCHELASTIC_"); });
  for (const auto& [name, value] : plan.environment) variables[name] = value;
  const std::string size_text = std::to_string(plan.ranks), rank_text = std::to_string(rank);
  for (const char* const name : {"TANDEM_RANK", "TANDEM_LOCAL_RANK", "RANK", "LOCAL_RANK"}) {
    variables[name] = rank_text;
  }
  for (const char* const name :
       {"TANDEM_SIZE", "TANDEM_LOCAL_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}) {
    variables[name] = size_text;
  }
  variables["TANDEM_RENDEZVOUS"] = fmt::format("127.0.0.1:{}", job_env.port);
  variables["TANDEM_JOB"] = job_env.name;
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(job_env.port);
  set_secret(variables, job_env.secret);
  std::vector<std::string> texts;
  for (const auto& [name, value] : variables) texts.push_back(name + "=" + value);
  return texts;
}

std::uint16_t reserve_port(boost::asio::ip::tcp::socket& holder) {
  using boost::asio::ip::tcp;
  holder.open(tcp::v4());
  ::fcntl(holder.native_handle(), F_SETFD, FD_CLOEXEC);
  holder.set_option(tcp::socket::reuse_address(true));
  holder.bind(tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
  return holder.local_endpoint().port();
}

}  // namespace tandem::launcher
