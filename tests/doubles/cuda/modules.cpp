#include <cctype>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !is_letter(text[at - 1]);
    if (begins && (end == text.size() || !is_letter(text[end]))) return true;
  }
  return false;
}

cu::result load_module(cu::module* into, const void* image) {
  return call_on_device("cuModuleLoadData", [&](world& in, world::lock&, device& at) {
    const std::string_view text(static_cast<const char*>(image));
    module made;
    made.device = at.ordinal;
    for (const auto& [name, each] : in.kernels) {
      if (has_word(text, name)) made.functions.push_back({in.handle<cu::function>(), &each});
    }
    if (made.functions.empty()) return invalid_image;
    made.handle = in.handle<cu::module>();
    *into = made.handle;
    in.modules.emplace(made.handle, std::move(made));
    return cu::success;
  });
}

bool has_running_kernel(const world& in, cu::module which) {
  for (const auto& each : in.streams) {
    for (const work& queued : each->waiting) {
      const bool is_of_it = queued.is_kernel && queued.module == which;
      if (is_of_it && !(queued.has_begun && queued.is_ready())) return true;
    }
  }
  return false;
}

/// As the driver does, but not for ever, since a kernel may wait for others.
void await_kernels(cu::module of) {
  world* const in = world::now();
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (in != nullptr && std::chrono::steady_clock::now() < limit) {
    {
      const world::lock held(in->mutex);
      if (!has_running_kernel(*in, of)) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

cu::result unload_module(cu::module which) {
  await_kernels(which);
  return call_to_free("cuModuleUnload", [&](world& in) {
    if (has_running_kernel(in, which)) {
      in.misuse(invalid_handle, "cuModuleUnload: a kernel of it waits for others");
    }
    if (in.modules.erase(which) == 1) return cu::success;
    return in.misuse(invalid_handle, "cuModuleUnload: it is unloaded already");
  });
}

cu::result find_function(cu::function* into, cu::module in_module, const char* name) {
  return call_on_device("cuModuleGetFunction", [&](world& in, world::lock&, device&) {
    const auto found = in.modules.find(in_module);
    if (found == in.modules.end()) {
      return in.misuse(invalid_handle, "cuModuleGetFunction: the module is unloaded");
    }
    for (const function& each : found->second.functions) {
      if (each.what->name == name) return *into = each.handle, cu::success;
    }
    return not_found;
  });
}

/// The arguments of a launch.
struct launched {
  const kernel* what;
  std::vector<std::vector<std::byte>> arguments;
  unsigned blocks, threads;
  std::function<bool()> is_complete = {};  ///< of one that waits: it has started

  bool start_or_poll(cuda_double& gpus) {
    if (!is_complete) is_complete = what->start(blocks, threads, arguments, gpus);
    return is_complete();
  }
  void run(cuda_double& gpus) {
    std::vector<void*> each;
    for (auto& one : arguments) each.push_back(one.data());
    what->what(blocks, threads, each.data(), gpus);
  }
};

cu::result launch(cu::function what, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                  cu::stream on, void** arguments, void** extra) {
  return call_on_device("cuLaunchKernel", [&](world& in, world::lock&, device& at) {
    const kernel* found = nullptr;
    int of_device = -1;
    cu::module of_module = {};
    for (const auto& [handle, each] : in.modules) {
      for (const function& one : each.functions) {
        if (one.handle != what) continue;
        found = one.what;
        of_device = each.device;
        of_module = handle;
      }
    }
    const std::shared_ptr<stream> where = in.stream_of(on, at);
    if (found == nullptr)
      return in.misuse(invalid_handle, "cuLaunchKernel: its module is unloaded");
    if (!where) return in.misuse(invalid_handle, "cuLaunchKernel: the stream is destroyed");
    if (of_device != at.ordinal || where->device != at.ordinal) {
      return in.misuse(invalid_handle,
                       "cuLaunchKernel: kernel, stream and context are of several "
                       "devices");
    }
    constexpr unsigned most_threads = 1024, most_shared_bytes = 48 * 1024;
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > most_threads ||
        block_y != 1 || block_z != 1 || shared_bytes > most_shared_bytes || extra != nullptr) {
      return in.misuse(cu::invalid_value,
                       "cuLaunchKernel: no such grid, or none that the double has");
    }
    auto copied = std::make_shared<launched>(launched{found, {}, grid_x, block_x});
    for (std::size_t i = 0; i < found->argument_bytes.size(); ++i) {
      const auto* const from = static_cast<const std::byte*>(arguments[i]);
      copied->arguments.emplace_back(from, from + found->argument_bytes[i]);
    }
    if (found->start) {
      return in.queue(*where,
                      {.what = found->name.c_str(),
                       .is_ready = [&in, copied] { return copied->start_or_poll(in.owner); },
                       .run = [&in] { ++in.seen.launches; },
                       .polls = true,
                       .is_kernel = true,
                       .module = of_module});
    }
    return in.queue(*where, {.what = found->name.c_str(),
                             .run =
                                 [&in, copied] {
                                   copied->run(in.owner);
                                   const std::lock_guard held(in.mutex);
                                   ++in.seen.launches;
                                 },
                             .without_lock = true});
  });
}

}  // namespace

void fill_modules(detail::cuda& table) {
  table.load_module = load_module;
  table.unload_module = unload_module;
  table.find_function = find_function;
  table.launch = launch;
}

}  // namespace tandem::test::cuda
