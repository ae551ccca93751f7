#pragma once

#include <span>
#include <string>

namespace tandem::train {

/// `tandem train [options]`: under a launcher, one rank of the job; otherwise the launcher of the
/// job. Returns the exit status.
/// @par Errors `tandem::error` for invalid options and input; a failed rank is reported by its
/// launcher.
int train_main(std::span<const std::string> args);

}  // namespace tandem::train
