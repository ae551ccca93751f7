#pragma once

#include <span>
#include <string>

namespace tandem::train {

/// `tandem train [options]`: under a launcher one rank of a training, else its launcher. The exit
/// status.
/// @par Errors `tandem::error` for wrong options and input; a failed rank is reported by its
/// launcher.
int train_main(std::span<const std::string> args);

}  // namespace tandem::train
