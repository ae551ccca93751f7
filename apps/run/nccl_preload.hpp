#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem::launcher {

/// The files of Tandem's libnccl.so.2 and librccl.so.1: beside this program in a build, in the
/// folder of libraries of an installation, or in the Python package of a wheel.
/// @par Errors thrown: `errc::bad_option`: they are not there, with the folders.
std::vector<std::string> nccl_libraries();

/// What makes programs use them instead of their own: LD_PRELOAD, because PyTorch's libraries find
/// theirs by DT_RPATH, which precedes LD_LIBRARY_PATH.
void add_nccl(std::vector<std::pair<std::string, std::string>>& environment,
              const std::vector<std::string>& libraries);

}  // namespace tandem::launcher
