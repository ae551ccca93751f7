// The kernels of all types, as a source for one of them has them: behind reduce/device_loops.hpp,
// in one source file of a program.
#pragma once

TANDEM_KERNELS_OF_FLOATS(float32, float)
TANDEM_KERNELS_OF_FLOATS(float64, double)
TANDEM_KERNELS_OF_INTEGERS(int32, std::int32_t)
TANDEM_KERNELS_OF_INTEGERS(int64, std::int64_t)
TANDEM_KERNELS_OF_INTEGERS(int8, std::int8_t)
TANDEM_KERNELS_OF_INTEGERS(int16, std::int16_t)
TANDEM_KERNELS_OF_INTEGERS(uint8, std::uint8_t)
TANDEM_KERNELS_OF_INTEGERS(uint16, std::uint16_t)
TANDEM_KERNELS_OF_INTEGERS(uint32, std::uint32_t)
TANDEM_KERNELS_OF_INTEGERS(uint64, std::uint64_t)
TANDEM_KERNELS_OF_NARROW(float16, float16_number)
TANDEM_KERNELS_OF_NARROW(bfloat16, bfloat16_number)
TANDEM_KERNELS_OF_NARROW(float8_e4m3, e4m3_number)
TANDEM_KERNELS_OF_NARROW(float8_e5m2, e5m2_number)

/// `numbers(type)` for each type, but `integers(type)` for those that also have bitwise operations.
#define TANDEM_FOR_ALL_TYPES(numbers, integers)                                                    \
  numbers(float32) numbers(float64) integers(int32) integers(int64) integers(int8) integers(int16) \
      integers(uint8) integers(uint16) integers(uint32) integers(uint64) numbers(float16)          \
          numbers(bfloat16) numbers(float8_e4m3) numbers(float8_e5m2)
