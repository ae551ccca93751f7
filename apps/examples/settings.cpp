// Settings: members of a struct, text by name, or TANDEM_* variables, with advice for mistakes.
#include <iostream>
#include <tandem/tandem.hpp>

int main() try {
  tandem::settings options;
  options.eager_bytes = 32 * 1024;
  options = tandem::settings::from_environment(options);  // TANDEM_EAGER_BYTES=16K would win
  options.set("chunk-bytes", "2M");                       // as from a command line
  options.check();

  for (const tandem::option& each : tandem::option_table()) {
    std::cout << "--" << each.name << ' ' << each.get(options) << "  " << each.help << '\n';
  }

  try {
    options.set("chunk-bites", "2M");
  } catch (const tandem::error& failure) {
    std::cout << "as expected: " << failure.what() << '\n';
  }
} catch (const tandem::error& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
