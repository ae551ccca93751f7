// Every operation that only moves bytes, by every algorithm, from every rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <tandem/collectives.hpp>

#include "collectives/job.hpp"

namespace tandem {
namespace {

using test::job;
using bytes = std::vector<unsigned char>;

/// What rank `from` has for rank `to`, byte by byte.
unsigned char byte_of(int from, int to, std::size_t i) {
  return static_cast<unsigned char>(from * 37 + to * 101 + static_cast<int>(i % 251) * 7 + 1);
}

bytes block(int from, int to, std::size_t length) {
  bytes made(length);
  for (std::size_t i = 0; i < length; ++i) made[i] = byte_of(from, to, i);
  return made;
}

void append(bytes& to, const bytes& what) {
  to.insert(to.end(), what.begin(), what.end());
}

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

/// Lengths of the blocks: equal, or each another one, some empty.
std::vector<std::size_t> lengths(int ranks, std::size_t longest, bool listed) {
  std::vector<std::size_t> each(index(ranks), longest);
  if (!listed) return each;
  for (std::size_t r = 0; r < each.size(); ++r) each[r] = r % 3 == 1 ? 0 : longest / (r + 1);
  return each;
}

std::size_t offset(const std::vector<std::size_t>& of, int rank) {
  std::size_t total = 0;
  for (int r = 0; r < rank; ++r) total += of[index(r)];
  return total;
}

/// Blocks of all ranks as one of them sees them: each from its rank, to the same place everywhere.
bytes all_blocks(const std::vector<std::size_t>& each) {
  bytes all;
  for (std::size_t r = 0; r < each.size(); ++r) append(all, block(static_cast<int>(r), 0, each[r]));
  return all;
}

struct moving {
  algorithm how;
  std::size_t longest;
  int root;
  bool in_place;
  bool listed;
};

class Moving : public testing::TestWithParam<test::fabric_kind> {
 protected:
  /// Runs `one` for all that matters. `listed` false: the operation knows equal lengths alone.
  template <class Expect>
  void for_all(collective what, bool rooted, bool in_place, Expect one) {
    const std::size_t chunk = test::small_pieces().collective_chunk_bytes;
    // All there is where it is quick; elsewhere what takes another way through the channel.
    const bool all = GetParam().name == "local";
    const std::vector<int> sizes =
        all ? std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9} : std::vector<int>{2, 3, 5};
    const std::vector<std::size_t> lengths =
        all ? std::vector<std::size_t>{0, 1, 7, 513, chunk - 1, chunk, chunk + 1, 9 * chunk + 5}
            : std::vector<std::size_t>{1, 513, 9 * chunk + 5};
    for (const int n : sizes) {
      job ranks(GetParam(), n, test::small_pieces());
      for (const algorithm how : algorithms_of(what)) {
        if (how == algorithm::two_level) continue;  // needs hosts
        for (const std::size_t longest : lengths) {
          for (int root = 0; root < (rooted ? n : 1); ++root) {
            for (const int variant : {0, 1, 2, 3}) {
              const moving c{how, longest, root, (variant & 1) != 0, (variant & 2) != 0};
              if (c.in_place && !in_place) continue;
              SCOPED_TRACE(fmt::format("{} by {}, {} bytes, {} ranks, root {}{}{}", name(what),
                                       name(how), longest, n, root, c.in_place ? ", in place" : "",
                                       c.listed ? ", listed" : ""));
              one(ranks, c);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
};

TEST_P(Moving, Broadcast) {
  for_all(collective::broadcast, true, false, [](job& ranks, const moving& c) {
    if (c.listed) return;
    std::vector<bytes> data(index(ranks.size()), bytes(c.longest, 0xab));
    data[index(c.root)] = block(c.root, 0, c.longest);
    ASSERT_EQ(
        ranks.run([&](int r) { return broadcast(ranks.world(r), data[index(r)], c.root, c.how); }),
        "");
    for (const bytes& got : data) ASSERT_EQ(got, block(c.root, 0, c.longest));
  });
}

TEST_P(Moving, AllGather) {
  for_all(collective::all_gather, false, true, [](job& ranks, const moving& c) {
    const std::vector<std::size_t> each = lengths(ranks.size(), c.longest, c.listed);
    const bytes expected = all_blocks(each);
    std::vector<bytes> mine, all(index(ranks.size()), bytes(expected.size(), 0xab));
    for (int r = 0; r < ranks.size(); ++r) {
      mine.push_back(block(r, 0, each[index(r)]));
      if (c.in_place)
        std::ranges::copy(mine.back(),
                          all[index(r)].begin() + static_cast<std::ptrdiff_t>(offset(each, r)));
    }
    ASSERT_EQ(ranks.run([&](int r) {
      const mutable_view into(all[index(r)]);
      const const_view from = c.in_place ? const_view(into.part(offset(each, r), each[index(r)]))
                                         : const_view(mine[index(r)]);
      if (c.listed) return all_gather_v(ranks.world(r), from, into, each, c.how);
      return all_gather(ranks.world(r), from, into, c.how);
    }),
              "");
    for (const bytes& got : all) ASSERT_EQ(got, expected);
  });
}

TEST_P(Moving, Gather) {
  for_all(collective::gather, true, true, [](job& ranks, const moving& c) {
    if (c.listed && c.how == algorithm::tree) return;
    const std::vector<std::size_t> each = lengths(ranks.size(), c.longest, c.listed);
    const bytes expected = all_blocks(each);
    bytes all(expected.size(), 0xab);
    std::vector<bytes> mine;
    for (int r = 0; r < ranks.size(); ++r) mine.push_back(block(r, 0, each[index(r)]));
    const mutable_view area = mutable_view(all).part(offset(each, c.root), each[index(c.root)]);
    if (c.in_place) std::ranges::copy(mine[index(c.root)], static_cast<unsigned char*>(area.data));
    ASSERT_EQ(ranks.run([&](int r) {
      const mutable_view into = r == c.root ? mutable_view(all) : mutable_view();
      const const_view from =
          c.in_place && r == c.root ? const_view(area) : const_view(mine[index(r)]);
      if (c.listed) return gather_v(ranks.world(r), from, into, each, c.root, c.how);
      return gather(ranks.world(r), from, into, c.root, c.how);
    }),
              "");
    ASSERT_EQ(all, expected);
  });
}

TEST_P(Moving, Scatter) {
  for_all(collective::scatter, true, true, [](job& ranks, const moving& c) {
    if (c.listed && c.how == algorithm::tree) return;
    const std::vector<std::size_t> each = lengths(ranks.size(), c.longest, c.listed);
    bytes all = all_blocks(each);
    const bytes before = all;
    std::vector<bytes> mine;
    for (int r = 0; r < ranks.size(); ++r) mine.emplace_back(each[index(r)], 0xab);
    ASSERT_EQ(ranks.run([&](int r) {
      const mutable_view area = mutable_view(all).part(offset(each, r), each[index(r)]);
      const const_view from = r == c.root ? const_view(all) : const_view();
      const mutable_view into = c.in_place && r == c.root ? area : mutable_view(mine[index(r)]);
      if (c.listed) return scatter_v(ranks.world(r), from, into, each, c.root, c.how);
      return scatter(ranks.world(r), from, into, c.root, c.how);
    }),
              "");
    ASSERT_EQ(all, before);
    for (int r = 0; r < ranks.size(); ++r) {
      if (c.in_place && r == c.root) continue;
      ASSERT_EQ(mine[index(r)], block(r, 0, each[index(r)]));
    }
  });
}

TEST_P(Moving, AllToAll) {
  for_all(collective::all_to_all, false, false, [](job& ranks, const moving& c) {
    if (c.listed && c.how == algorithm::bruck) return;
    const int n = ranks.size();
    // What rank r sends to s is as long as what s expects of r.
    const auto length = [&](int from, int to) {
      return c.listed ? lengths(n, c.longest, true)[index((from + 2 * to) % n)] : c.longest;
    };
    std::vector<bytes> from(index(n)), into(index(n)), expected(index(n));
    std::vector<std::vector<std::size_t>> sent(index(n)), received(index(n));
    for (int r = 0; r < n; ++r) {
      for (int peer = 0; peer < n; ++peer) {
        append(from[index(r)], block(r, peer, length(r, peer)));
        append(expected[index(r)], block(peer, r, length(peer, r)));
        sent[index(r)].push_back(length(r, peer));
        received[index(r)].push_back(length(peer, r));
      }
      into[index(r)].assign(expected[index(r)].size(), 0xab);
    }
    const std::vector<bytes> before = from;
    ASSERT_EQ(ranks.run([&](int r) {
      const const_view out(from[index(r)]);
      const mutable_view in(into[index(r)]);
      if (!c.listed) return all_to_all(ranks.world(r), out, in, c.how);
      return all_to_all_v(ranks.world(r), out, sent[index(r)], in, received[index(r)], c.how);
    }),
              "");
    ASSERT_EQ(into, expected);
    ASSERT_EQ(from, before);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, Moving, testing::ValuesIn(test::fabric_kinds()), test::name_of_kind);

asio::awaitable<void> rotate(communicator& among, int by, std::vector<int>& got) {
  const int n = among.size();
  const int mine = 10 * among.rank();
  int theirs = -1;
  const const_view out(&mine, sizeof mine);
  const mutable_view in(&theirs, sizeof theirs);
  const std::size_t length =
      co_await among.sendrecv((among.rank() + by) % n, out, (among.rank() + n - by) % n, in);
  got[index(among.rank())] = length == sizeof theirs ? theirs : -2;
}

TEST(Sendrecv, ExchangesAmongAnyNumberOfRanks) {
  for (int n = 2; n <= 9; ++n) {
    for (int by = 1; by < n; ++by) {
      job ranks(n, test::small_pieces());
      std::vector<int> got(index(n));
      ASSERT_EQ(ranks.run([&](int r) { return rotate(ranks.world(r), by, got); }), "");
      for (int r = 0; r < n; ++r) ASSERT_EQ(got[index(r)], 10 * ((r + n - by) % n));
    }
  }
}

asio::awaitable<void> send_long(communicator& among, const bytes& what, bytes& into) {
  const const_view out(what);
  const mutable_view in(into);
  const std::size_t length = co_await among.sendrecv(1 - among.rank(), out, 1 - among.rank(), in);
  into.resize(length);
}

TEST(Sendrecv, CarriesLongMessagesOfUnequalLength) {
  job ranks(2, test::small_pieces());
  const bytes from[2] = {block(0, 1, 100'000), block(1, 0, 3)};
  bytes into[2] = {bytes(10), bytes(200'000)};
  ASSERT_EQ(
      ranks.run([&](int r) { return send_long(ranks.world(r), from[index(r)], into[index(r)]); }),
      "");
  EXPECT_EQ(into[0], from[1]);
  EXPECT_EQ(into[1], from[0]);
}

TEST(Sendrecv, FailureWaitsForTheOtherDirection) {
  job ranks(2, test::small_pieces());
  const bytes longer(100);
  bytes into[2] = {bytes(10), bytes(10)};
  ASSERT_NE(ranks.run([&](int r) { return send_long(ranks.world(r), longer, into[index(r)]); }),
            "hangs");
  EXPECT_EQ(ranks.code(0), errc::message_truncated) << ranks.text(0);
  EXPECT_EQ(ranks.code(1), errc::message_truncated) << ranks.text(1);
}

}  // namespace
}  // namespace tandem
