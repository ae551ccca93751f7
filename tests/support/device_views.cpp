#include "support/device_views.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "support/pattern.hpp"

namespace tandem::test {
namespace {

/// Device memory in place of a user's host view. A view that no test fills gets one byte only.
class device_view final : public other_view {
 public:
  device_view(const mutable_view& of_user, cuda_double& gpus, int on, std::shared_ptr<arena> from)
      : bytes_(of_user.bytes),
        on_(on),
        is_real_(bytes_ <= longest_view_bytes),
        gpus_(gpus),
        from_(std::move(from)) {
    if (is_real_ && from_) part_ = from_->take(bytes_);
    if (part_ == nullptr) memory_ = buffer(is_real_ ? bytes_ : 1, memory_kind::cuda, on);
  }
  ~device_view() override {
    if (part_ != nullptr) from_->give_back(part_);
  }
  mutable_view get() const override { return {data(), bytes_, memory_kind::cuda, on_}; }
  void* bytes() const override {
    return is_real_ ? gpus_.host(reinterpret_cast<cu::address>(data()), bytes_) : nullptr;
  }

 private:
  std::byte* data() const { return part_ != nullptr ? part_ : memory_.data(); }

  const std::size_t bytes_;
  const int on_;
  const bool is_real_;
  cuda_double& gpus_;
  const std::shared_ptr<arena> from_;
  std::byte* part_ = nullptr;
  buffer memory_;
};

std::unique_ptr<cuda_double> gpus;

class give_back final : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override { gpus.reset(); }
};

}  // namespace

std::unique_ptr<channel> with_device_views(std::unique_ptr<channel> below, cuda_double& of,
                                           int device, std::shared_ptr<arena> from) {
  const auto make = [&of, device, from](const mutable_view& user) -> std::unique_ptr<other_view> {
    if (user.kind != memory_kind::host) return as_it_is({user.data, user.bytes, user.kind, 99});
    if (device < 0) return as_it_is(user);
    return std::make_unique<device_view>(user, of, device, from);
  };
  return with_other_views(std::move(below), make);
}

std::shared_ptr<arena> device_arena(std::size_t bytes, int device) {
  const auto all = std::make_shared<const buffer>(bytes, memory_kind::cuda, device);
  return std::make_shared<arena>(std::shared_ptr<std::byte>(all, all->data()), bytes);
}

cuda_double& gpus_of_this_test(const cuda_double::options& as) {
  static const bool is_listening = [] {
    testing::UnitTest::GetInstance()->listeners().Append(new give_back);  // owned by GoogleTest
    return true;
  }();
  static_cast<void>(is_listening);
  if (!gpus) gpus = std::make_unique<cuda_double>(as);
  return *gpus;
}

void write_pattern(cuda_double& on, const buffer& where, std::size_t bytes, std::uint64_t seed) {
  const std::vector<std::byte> made = pattern(bytes, seed);
  if (bytes > 0) std::memcpy(on.host(where.data(), bytes), made.data(), bytes);
}

void expect_pattern(cuda_double& on, const buffer& where, std::size_t bytes, std::uint64_t seed) {
  if (bytes == 0) return;
  const std::span<const std::byte> there(on.host(where.data(), bytes), bytes);
  EXPECT_EQ(first_wrong(there, seed), std::nullopt) << bytes << " bytes";
}

awaitable<void> expect_waiting(background& part) {
  co_await turns(20);
  EXPECT_FALSE(part.is_over()) << "completed while a copy engine may still access its view";
}

}  // namespace tandem::test
