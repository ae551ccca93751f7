#pragma once

#include <tandem.h>

#include <cstring>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "errors.hpp"
#include "flight_recorder.hpp"
#include "tensors.hpp"

namespace tandem::torch_backend {

/// The caller's store of torch.distributed as Tandem's.
struct store_functions {
  static int set(void* context, const char* key, const void* value, std::size_t bytes) {
    try {
      const auto* const data = static_cast<const std::uint8_t*>(value);
      static_cast<c10d::Store*>(context)->set(key, std::vector<std::uint8_t>(data, data + bytes));
      return 0;
    } catch (const std::exception&) {
      return 1;
    }
  }
  static int get(void* context, const char* key, void* value, std::size_t* bytes,
                 std::int64_t timeout_ms) {
    try {
      auto* const store = static_cast<c10d::Store*>(context);
      store->wait({key}, milliseconds(timeout_ms));
      const std::vector<std::uint8_t> found = store->get(key);
      if (found.size() <= *bytes) std::memcpy(value, found.data(), found.size());
      *bytes = found.size();
      return 0;
    } catch (const std::exception&) {
      return 1;
    }
  }
};

/// This process as a rank of a job; the last group that uses it leaves.
class job {
 public:
  job(const c10::intrusive_ptr<c10d::Store>& through, int rank, int size, milliseconds timeout,
      const std::string& name, int gpu) {
    tandem_store store{sizeof(tandem_store), through.get(), store_functions::set,
                       store_functions::get};
    tandem_job_options options = TANDEM_JOB_OPTIONS_INIT;
    options.rank = rank;
    options.size = size;
    options.store = &store;
    options.name = name.c_str();
    if (gpu >= 0) {
      options.memory_kind = gpu_memory;
      options.device = gpu;
    }
    options.meet_timeout_ms = timeout.count();
    options.operation_timeout_ms = timeout.count();
    tandem_error error = TANDEM_ERROR_INIT;
    check(tandem_job_create(&options, &job_, &error), error);
    dumps_ = flight_recorder::all().join(through);
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;
  ~job() { tandem_job_destroy(job_); }

  tandem_job* get() const noexcept { return job_; }

 private:
  tandem_job* job_ = nullptr;
  std::shared_ptr<dump_signal> dumps_;
};

}  // namespace tandem::torch_backend
