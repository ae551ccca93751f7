// What most translation units read anyway; only build time depends on it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>
