#include <gtest/gtest.h>

#include <set>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>
#include <vector>

#include "support/environment_variable.hpp"

namespace tandem {
namespace {

using namespace std::chrono_literals;

using test::environment_variable;

/// Text of the error that `call` throws.
template <class Call>
std::string error_text(Call call) {
  try {
    call();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_option);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    return e.what();
  }
  return "no error";
}

std::string set_complaint(std::string_view name, std::string_view value) {
  return error_text([=] { settings{}.set(name, value); });
}

TEST(Settings, DefaultsRoundTrip) {
  for (const option& o : option_table()) {
    settings changed;
    const std::string standard = o.get(changed);
    EXPECT_FALSE(standard.empty()) << o.name;
    o.set(changed, standard);
    EXPECT_EQ(o.get(changed), standard) << o.name;
  }
}

TEST(Settings, NamesVariablesAndHelpAreUnique) {
  std::set<std::string> names;
  for (const option& o : option_table()) {
    std::string variable = "TANDEM_";
    for (const char c : o.name) variable += c == '-' ? '_' : static_cast<char>(std::toupper(c));
    EXPECT_EQ(o.environment, variable);
    EXPECT_TRUE(names.insert(std::string(o.name)).second) << o.name;
    EXPECT_FALSE(o.unit.empty()) << o.name;
    EXPECT_FALSE(o.help.empty()) << o.name;
  }
}

TEST(Settings, SetsEachKindOfValue) {
  settings s;
  s.set("eager-bytes", "128K");
  s.set("chunk-bytes", "2m");
  s.set("max-flows", "7");
  s.set("spin-us", "0");
  s.set("operation-timeout-s", "1.5");
  s.set("meet-timeout-s", "200ms");
  s.set("log", "debug");
  s.set("insecure", "1");
  EXPECT_FALSE(s.encrypt);
  s.set("encrypt", "1");
  EXPECT_TRUE(s.encrypt);
  EXPECT_EQ(s.eager_bytes, 128u * 1024);
  EXPECT_EQ(s.chunk_bytes, 2u * 1024 * 1024);
  EXPECT_EQ(s.max_flows, 7u);
  EXPECT_EQ(s.spin, 0us);
  EXPECT_EQ(s.operation_timeout, 1500ms);
  EXPECT_EQ(s.meet_timeout, 200ms);
  EXPECT_EQ(s.log, log_level::debug);
  EXPECT_TRUE(s.insecure);
  s.set("rails", "eth0,^10.0.0.0/24");
  s.set("rail-streams", "4");
  EXPECT_EQ(s.rails, "eth0,^10.0.0.0/24");
  EXPECT_EQ(s.rail_streams, 4u);
  s.set("rails", "auto");
  EXPECT_EQ(s.rails, "auto") << "set explicitly, unlike the default";
  s.set("rails", "none");
  EXPECT_EQ(s.rails, "");
  EXPECT_EQ(s.shm_single_copy, single_copy::automatic);
  s.set("shm-single-copy", "1");
  EXPECT_EQ(s.shm_single_copy, single_copy::on);
  s.set("shm-single-copy", "0");
  EXPECT_EQ(s.shm_single_copy, single_copy::off);
  s.set("shm-single-copy", "auto");
  EXPECT_EQ(s.shm_single_copy, single_copy::automatic);
  EXPECT_EQ(s.rdma, rdma_use::automatic);
  s.set("rdma", "on");
  EXPECT_EQ(s.rdma, rdma_use::on);
  s.set("rdma", "off");
  EXPECT_EQ(s.rdma, rdma_use::off);
  s.set("rdma", "both");
  EXPECT_EQ(s.rdma, rdma_use::both);
  s.set("rdma", "auto");
  EXPECT_EQ(s.rdma, rdma_use::automatic);
  s.set("plan", "all_reduce=ring,broadcast:64K-=chain/1M");
  EXPECT_EQ(s.plan, "all_reduce=ring,broadcast:64K-=chain/1M");
  s.set("plan", "auto");
  EXPECT_EQ(s.plan, "");
  s.set("profile", "rates");
  s.set("host", "a");
  EXPECT_EQ(s.profile + s.host, "ratesa");
  s.set("shm-ring-bytes", "4M");
  EXPECT_EQ(s.shm_ring_bytes, 4u * 1024 * 1024);
  s.set("shm-ring-bytes", "auto");
  EXPECT_EQ(s.shm_ring_bytes, 0u);
  s.set("spin-us", "1ms");
  EXPECT_EQ(s.spin, 1000us);
}

TEST(Settings, InvalidValueIsExplainedAndIgnored) {
  EXPECT_NE(set_complaint("spin-us", "abc").find("--spin-us=abc: not a number of microseconds"),
            std::string::npos);
  EXPECT_NE(set_complaint("spin-us", "5min").find("not a number"), std::string::npos);
  EXPECT_NE(set_complaint("spin-us", "nan").find("outside"), std::string::npos);
  EXPECT_NE(set_complaint("spin-us", "-1").find("outside"), std::string::npos);
  EXPECT_NE(set_complaint("meet-timeout-s", "0").find("outside"), std::string::npos);
  EXPECT_NE(set_complaint("chunk-bytes", "65M").find("outside 1K to 64M"), std::string::npos);
  EXPECT_NE(set_complaint("chunk-bytes", "12Q").find("not a number of bytes"), std::string::npos);
  EXPECT_NE(set_complaint("max-flows", "0").find("outside"), std::string::npos);
  EXPECT_NE(set_complaint("rails", "eth0, eth1").find("--rails=eth0, eth1: blanks"),
            std::string::npos);
  EXPECT_NE(set_complaint("rails", std::string(5000, 'e')).find("longer than 4096"),
            std::string::npos);
  EXPECT_NE(set_complaint("plan", "all_reduce = ring").find("by commas: all_reduce:64K-=ring"),
            std::string::npos);
  EXPECT_NE(set_complaint("host", std::string(256, 'h')).find("longer than 255"),
            std::string::npos);
  EXPECT_NE(set_complaint("shm-single-copy", "yes").find("neither auto nor 0 nor 1"),
            std::string::npos);
  EXPECT_NE(set_complaint("rdma", "1").find("--rdma=1: neither auto nor on, off or both"),
            std::string::npos);
  EXPECT_NE(set_complaint("shm-ring-bytes", "32K").find("outside 64K to 1G"), std::string::npos);
  EXPECT_NE(set_complaint("shm-ring-bytes", "big").find("write auto, or"), std::string::npos);
  EXPECT_NE(set_complaint("congestion", "sixteen-letters-").find("longer than 15 characters"),
            std::string::npos);
  EXPECT_NE(set_complaint("rail-streams", "17").find("outside 1 to 16 streams"), std::string::npos);
  EXPECT_NE(set_complaint("rail-streams", "x").find("not a number of streams"), std::string::npos);
  EXPECT_NE(set_complaint("log", "loud").find("choose debug"), std::string::npos);
  // Too large for the type is too large, not no number.
  EXPECT_NE(set_complaint("max-flows", "99999999999999999999").find("outside 1 to 1048576 flows"),
            std::string::npos);
  EXPECT_NE(set_complaint("peer-timeout-s", "1e999").find("outside 0.001 to 604800 seconds"),
            std::string::npos);
  EXPECT_NE(set_complaint("chunk-bytes", "99999999999999999999").find("exceeds the address space"),
            std::string::npos);
  EXPECT_NE(set_complaint("max-flows", "99999999999999999999x").find("not a number"),
            std::string::npos);
  EXPECT_NE(set_complaint("insecure", "yes").find("neither 0 nor 1"), std::string::npos);
  settings s;
  error_text([&s] { s.set("chunk-bytes", "65M"); });
  EXPECT_EQ(s.chunk_bytes, settings{}.chunk_bytes);
}

TEST(Settings, UnknownNameSuggestsNearest) {
  EXPECT_EQ(set_complaint("eager-bites", "1"),
            "--eager-bites: no such option; did you mean --eager-bytes?");
  EXPECT_EQ(set_complaint("zzzzzzzz", "1"), "--zzzzzzzz: no such option");
}

TEST(Settings, InconsistentOptionsAreRefused) {
  settings s;
  EXPECT_NO_THROW(s.check());
  s.eager_bytes = 2 * s.chunk_bytes;
  EXPECT_NE(error_text([&s] { s.check(); }).find("eager-bytes 2M is more than chunk-bytes 1M"),
            std::string::npos);
  s = {};
  s.credit_bytes = 3 * s.eager_bytes;
  EXPECT_NE(error_text([&s] { s.check(); }).find("less than four times eager-bytes"),
            std::string::npos);
}

TEST(Settings, EnvironmentOverridesDefaults) {
  const environment_variable spin("TANDEM_SPIN_US", "7"), empty("TANDEM_CHUNK_BYTES", "");
  settings base;
  base.max_flows = 9;
  const settings s = settings::from_environment(base);
  EXPECT_EQ(s.spin, 7us);
  EXPECT_EQ(s.max_flows, 9u);
  EXPECT_EQ(s.chunk_bytes, base.chunk_bytes);
}

TEST(Settings, InvalidVariableIsNamedAsGiven) {
  const environment_variable spin("TANDEM_SPIN_US", "abc");
  EXPECT_NE(error_text([] {
              settings::from_environment();
            }).find("TANDEM_SPIN_US=abc: not a number of microseconds"),
            std::string::npos);
}

TEST(Settings, OnlyUnknownVariablesWarn) {
  const environment_variable misspelled("TANDEM_EAGER_BITES", "1"), rank("TANDEM_RANK", "0"),
      family("TANDEM_RUN_ANYTHING", "1");
  std::vector<std::string> warnings;
  const log_sink before = set_log_sink(
      [&warnings](const log_record& r) { warnings.emplace_back(r.text); }, log_level::warning);
  settings::from_environment();
  set_log_sink(before);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "TANDEM_EAGER_BITES: no such option; did you mean TANDEM_EAGER_BYTES?");
}

TEST(Settings, BytesAreReadAndWrittenInPowersOf1024) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("64K"), 65536u);
  EXPECT_EQ(parse_bytes("3g"), 3ull << 30);
  for (const std::string_view wrong :
       {"", "K", "-1", "1.5K", "1KB", " 1", "99999999999999999999", "99999999999999G"}) {
    EXPECT_THROW(parse_bytes(wrong), error) << '"' << wrong << '"';
  }
  EXPECT_EQ(format_bytes(0), "0");
  EXPECT_EQ(format_bytes(1023), "1023");
  EXPECT_EQ(format_bytes(65536), "64K");
  EXPECT_EQ(format_bytes(16u << 20), "16M");
}

TEST(Nearest, CountsTranspositionAsOneEdit) {
  const std::vector<std::string_view> words{"train", "perf", "run", "version"};
  EXPECT_EQ(nearest("trian", words), "train");
  EXPECT_EQ(nearest("rnu", words), "run");
  EXPECT_EQ(nearest("perv", words), "perf");
  EXPECT_EQ(nearest("versions", words), "version");
  EXPECT_EQ(nearest("doctor", words), "");
  EXPECT_EQ(nearest("", words), "");
}

}  // namespace
}  // namespace tandem
