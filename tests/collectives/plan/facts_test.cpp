#include <gtest/gtest.h>

#include <fstream>
#include <tandem/detail/profile_file.hpp>
#include <tandem/error.hpp>
#include <tandem/plan.hpp>

#include "support/temporary_folder.hpp"

namespace tandem {
namespace {

facts two_by_two() {
  facts known;
  known.host_of_rank = {"a", "b", "a", "b"};
  known.within = {"shm", 0, 400, 12'000};
  known.across = {"rails", 2, 30'000, 250};
  known.combine_bytes_per_us = 11'000;
  known.cores = 16;
  return known;
}

std::string complaint_about(std::string_view text) {
  try {
    facts::parse(text);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_input);
    return e.what();
  }
  return "no error";
}

std::string refusal_of(const std::string& file) {
  try {
    facts::load(file);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_input);
    return e.what();
  }
  return "no error";
}

TEST(Facts, RoundTripsThroughText) {
  const facts known = two_by_two();
  EXPECT_EQ(facts::parse(known.text()), known);
  EXPECT_EQ(facts::parse(facts::one_host(3).text()), facts::one_host(3));
}

TEST(Facts, ReadsHandWrittenText) {
  const facts known =
      facts::parse("# my cluster\n\n  across.bytes_per_us\t1250 # 10 Gbit/s\r\nhost a");
  EXPECT_EQ(known.across.bytes_per_us, 1250u);
  EXPECT_EQ(known.within, path_facts{});
  EXPECT_EQ(known.host_of_rank, std::vector<std::string>{"a"});
}

TEST(Facts, ReportsLineAndReasonOfErrors) {
  EXPECT_EQ(complaint_about("\nwithin.latency_us 3"),
            "profile, line 2: within.latency_us: unknown key; did you mean within.latency_ns?");
  EXPECT_NE(complaint_about("within.latency_ns soon").find("soon is not an integer"),
            std::string::npos);
  EXPECT_NE(complaint_about("within.latency_ns").find("is not an integer"), std::string::npos);
  EXPECT_NE(complaint_about("within.latency_ns 0").find("outside 1 to"), std::string::npos);
  EXPECT_NE(complaint_about("within.latency_ns -5").find("not an integer"), std::string::npos);
  EXPECT_NE(complaint_about("across.bytes_per_us 99999999999999999999").find("outside 1 to"),
            std::string::npos);
  EXPECT_NE(complaint_about("host " + std::string(300, 'h')).find("1 to 255 characters"),
            std::string::npos);
  EXPECT_NE(complaint_about("{\"json\": 1}").find("unknown key"), std::string::npos);
}

TEST(Facts, OfDevicesIncludeReductionRates) {
  EXPECT_FALSE(facts::parse("memory host").on_devices);
  EXPECT_EQ(facts::parse("memory host").combine_latency_ns, 0u);
  facts devices;
  devices.use_devices();
  EXPECT_EQ(facts::parse("memory device"), devices);
  EXPECT_EQ(facts::parse("memory device\nmemory host"), devices) << "one rank with a device counts";
  EXPECT_EQ(facts::parse(devices.text()), devices);
  const facts slow = facts::parse("combine.latency_ns 70\nmemory device");
  EXPECT_EQ(slow.combine_latency_ns, 70u) << "whatever the order of lines";
  EXPECT_EQ(slow.combine_bytes_per_us, devices.combine_bytes_per_us);
  EXPECT_NE(complaint_about("memory fast").find("neither host nor device"), std::string::npos);
}

TEST(Facts, UsesFewestCoresOfAnyHost) {
  EXPECT_EQ(facts::parse("host a").cores, 0u);
  EXPECT_EQ(facts::parse("cores 0\ncores 8\ncores 4\ncores 0\ncores 6").cores, 4u);
  EXPECT_NE(complaint_about("cores many").find("not an integer"), std::string::npos);
}

TEST(Facts, OfSubsetKeepRankOrder) {
  const int some[] = {3, 0};
  EXPECT_EQ(two_by_two().of(some).host_of_rank, (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(two_by_two().of(some).across, two_by_two().across);
}

TEST(Facts, LoadErrorNamesTheFile) {
  const test::temporary_folder folder;
  const std::string file = folder.path("profile");
  EXPECT_THROW(facts::load(file), error);
  std::ofstream(file) << "tandem profile 1: edited\nhots a\n";
  const std::string refused = refusal_of(file);
  EXPECT_NE(refused.find("did you mean host?"), std::string::npos) << refused;
  EXPECT_NE(refused.find(file + ": profile, line 2: hots"), std::string::npos) << refused;
}

TEST(Facts, FileIsReadBack) {
  const test::temporary_folder folder;
  EXPECT_EQ(facts::load(folder.file("profile", detail::profile_file(two_by_two()))), two_by_two());
}

TEST(Facts, NoPartOfAFileIsBelieved) {
  const test::temporary_folder folder;
  const std::string whole = detail::profile_file(two_by_two());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string file = folder.file("profile", whole.substr(0, length));
    EXPECT_NE(refusal_of(file).find(file), std::string::npos) << length << " bytes of it";
  }
  const std::string refused = refusal_of(folder.file("profile", whole.substr(0, 60)));
  EXPECT_NE(refused.find("it is cut: "), std::string::npos) << refused;
  EXPECT_NE(refused.find("tandem plan probe --save"), std::string::npos) << refused;
}

TEST(Facts, EditedFileSaysSo) {
  const test::temporary_folder folder;
  std::string text = detail::profile_file(two_by_two());
  text.replace(text.find("12000"), 5, "13000");
  const std::string refused = refusal_of(folder.file("profile", text));
  EXPECT_NE(refused.find("it has been changed"), std::string::npos) << refused;
  EXPECT_NE(refused.find("\"tandem profile 1: edited\""), std::string::npos) << refused;
  text = "tandem profile 1: edited" + text.substr(text.find('\n'));
  facts edited = two_by_two();
  edited.within.bytes_per_us = 13'000;
  EXPECT_EQ(facts::load(folder.file("profile", text)), edited);
}

TEST(Facts, FileWithoutFirstLineIsRefused) {
  const test::temporary_folder folder;
  const std::string refused = refusal_of(folder.file("profile", two_by_two().text()));
  EXPECT_NE(refused.find("its first line is not that of a profile"), std::string::npos) << refused;
}

}  // namespace
}  // namespace tandem
