#include "abi/same_shape.hpp"

#include <gtest/gtest.h>

#include <cstdint>

// What the check accepts and refuses.

namespace tandem::test {
namespace {

enum narrow : std::uint8_t { few };
enum plain { some };
struct four {
  int value;
};
struct eight {
  int value[2];
};
struct opaque;
using callback = int (*)(void*);
using other_callback = int (*)(void*, int);

template <class Ours, class Theirs>
constexpr bool same = same_shape<Ours*, Theirs*>::value;

static_assert(same<int(int, void**), plain(plain, opaque**)>);
static_assert(same<int(four, const void*), unsigned(four, opaque*)>);
static_assert(same<int(callback), int(callback)>);

static_assert(!same<int(int), int(int, int)>, "arity");
static_assert(!same<int(int), int(std::int64_t)>, "size");
static_assert(!same<int(int), int(narrow)>, "size of an enumeration");
static_assert(!same<int(void*), int(std::uint64_t)>, "no pointer");
static_assert(!same<int(four), int(eight)>, "size of a structure");
static_assert(!same<int(four), int(int)>, "no structure");
static_assert(!same<int(int*), int(std::int64_t*)>, "what is written through it");
static_assert(!same<int(float), int(int)>, "a number with a point");
static_assert(!same<int(callback), int(other_callback)>, "what is called through it");
static_assert(!same<int(int), void(int)>, "what comes back");

}  // namespace

TEST(abi, signature_comparison_detects_differences) {
  SUCCEED() << "it compiled";
}

}  // namespace tandem::test
