#include "doubles/cuda/double.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "doubles/cuda/world.hpp"

namespace tandem::test {

cuda_double::cuda_double() : cuda_double(options{}) {}

cuda_double::cuda_double(options as)
    : world_(std::make_unique<cuda::world>(*this, std::move(as))) {}

cuda_double::~cuda_double() {
  cuda::world::lock held(world_->mutex);
  const std::string found = world_->audit(held);
  held.unlock();
  if (!found.empty()) ADD_FAILURE() << "CUDA double: " << found;
}

detail::cuda& cuda_double::table() noexcept {
  return cuda::world::functions();
}

void cuda_double::manual(bool on) {
  const cuda::world::lock held(world_->mutex);
  world_->manual = on;
  world_->changed.notify_all();
}

bool cuda_double::step(cu::stream of) {
  cuda::world::lock held(world_->mutex);
  return world_->step(held, of == nullptr ? std::nullopt : std::optional(of));
}

std::size_t cuda_double::run_all() {
  cuda::world::lock held(world_->mutex);
  std::size_t done = 0;
  while (world_->step(held)) ++done;
  return done;
}

std::size_t cuda_double::queued() const {
  const cuda::world::lock held(world_->mutex);
  std::size_t all = 0;
  for (const auto& each : world_->streams) all += each->waiting.size();
  return all;
}

std::size_t cuda_double::queued(cu::stream on) const {
  const cuda::world::lock held(world_->mutex);
  std::size_t all = 0;
  for (const auto& each : world_->streams) {
    if (each->handle == on) all += each->waiting.size();
  }
  return all;
}

void cuda_double::capture(cu::stream which, bool on) {
  const cuda::world::lock held(world_->mutex);
  for (const auto& each : world_->streams) {
    if (each->handle == which) each->capturing = on;
  }
}

std::byte* cuda_double::host(cu::address of, std::size_t bytes) {
  const cuda::world::lock held(world_->mutex);
  const cuda::region* const found = world_->find(of);
  if (found != nullptr && bytes <= found->bytes - (of - found->base)) {
    return found->data + (of - found->base);
  }
  throw std::out_of_range(std::to_string(bytes) + " bytes of which " + world_->what_is(of));
}

std::byte* cuda_double::make_pages(int device, const std::vector<std::size_t>& bytes) {
  const cuda::world::lock held(world_->mutex);
  return reinterpret_cast<std::byte*>(cuda::make_pages(*world_, device, bytes));
}

void cuda_double::renew_pages(const std::byte* at) {
  const cuda::world::lock held(world_->mutex);
  cuda::renew_pages(*world_, reinterpret_cast<cu::address>(at));
}

void cuda_double::free_pages(const std::byte* base) {
  const cuda::world::lock held(world_->mutex);
  world_->remove(reinterpret_cast<cu::address>(base));
}

void cuda_double::add_kernel(const std::string& name, std::vector<std::size_t> argument_bytes,
                             kernel what) {
  const cuda::world::lock held(world_->mutex);
  world_->kernels[name] = {name, std::move(argument_bytes), std::move(what), {}};
}

void cuda_double::add_waiting_kernel(const std::string& name,
                                     std::vector<std::size_t> argument_bytes,
                                     waiting_kernel start) {
  const cuda::world::lock held(world_->mutex);
  world_->kernels[name] = {name, std::move(argument_bytes), {}, std::move(start)};
}

void cuda_double::fail(const std::string& function, int at_call, cu::result with) {
  const std::string name = cuda::exported_name(function);
  if (name.empty()) ADD_FAILURE() << "CUDA double: no function " << function;
  const cuda::world::lock held(world_->mutex);
  world_->faults.push_back({name, at_call, with});
}

void cuda_double::break_device(int device, int after_work, cu::result with) {
  const cuda::world::lock held(world_->mutex);
  cuda::device& which = world_->devices.at(static_cast<std::size_t>(device));
  which.breaks_after = after_work;
  which.breaks_with = with;
}

std::size_t cuda_double::calls(const std::string& function) const {
  const std::string name = cuda::exported_name(function);
  if (name.empty()) ADD_FAILURE() << "CUDA double: no function " << function;
  const cuda::world::lock held(world_->mutex);
  const auto found = world_->counts.find(name);
  return found == world_->counts.end() ? 0 : found->second;
}

std::shared_ptr<void> cuda_double::lock_driver() {
  const auto change = [in = world_.get()](int by) {
    const cuda::world::lock held(in->mutex);
    in->locked += by;
  };
  change(+1);
  return {world_.get(), [change](cuda::world*) { change(-1); }};
}

void cuda_double::share_hardware_queues(int count) {
  const cuda::world::lock held(world_->mutex);
  world_->hardware_queues = count;
}

std::vector<std::string> cuda_double::violations() const {
  const cuda::world::lock held(world_->mutex);
  return world_->violations;
}

void cuda_double::expect_violation(const std::string& words) {
  const cuda::world::lock held(world_->mutex);
  world_->expected.push_back(words);
}

cuda_double::objects cuda_double::open() const {
  const cuda::world::lock held(world_->mutex);
  return world_->open();
}

cuda_double::traffic cuda_double::seen() const {
  const cuda::world::lock held(world_->mutex);
  return world_->seen;
}

}  // namespace tandem::test
