#pragma once

#include <tandem.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <tandem/memory.hpp>
#include <tandem/reduction.hpp>
#include <vector>

namespace tandem::c {

// What callers of operations pass, in C++'s types. @par Errors thrown: `errc::bad_input`.

mutable_view view_of(const tandem_buffer& from);
data_type type_of(const tandem_reduction& how);
reduction reduction_of(const tandem_reduction& how);
/// One for each rank; null: none.
std::vector<std::size_t> lengths_of(const std::size_t* given, int ranks);
int checked_tag(const char* name, std::int32_t tag);

using buffers = std::initializer_list<tandem_buffer>;
/// The first buffer that is in the memory of a device; null: none is.
const tandem_buffer* find_on_device(buffers used);

// Members that callers of older versions do not have.

/// tandem_call::in_stream.
int in_stream_of(const tandem_call* call);
class call_batch* batch_of(const tandem_call* call);

}  // namespace tandem::c
