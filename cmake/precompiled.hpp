// Headers that most translation units include; affects build time only.
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
