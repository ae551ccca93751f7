// A log sink of the program's own: the library prints nothing by itself.
#include <cstdlib>
#include <iostream>
#include <tandem/tandem.hpp>

int main() {
  tandem::set_log_sink(
      [](const tandem::log_record& record) {
        std::cout << tandem::name(record.level) << " from " << record.component << ": "
                  << record.text << '\n';
      },
      tandem::log_level::info);

  // A misspelt variable is a warning of the library.
  setenv("TANDEM_EAGER_BITES", "64K", 1);
  tandem::settings::from_environment();

  // The program may use the same log.
  if (tandem::log_enabled(tandem::log_level::info)) {
    tandem::log(tandem::log_level::info, "example", "the sink is in place");
  }
}
