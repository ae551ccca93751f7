#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::train {

/// Writes one JSON object, one member per line.
class json_object {
 public:
  void text(std::string_view name, std::string_view value);
  /// Writes null for a value that is not finite: JSON has no representation for it.
  void number(std::string_view name, double value);
  void numbers(std::string_view name, const std::vector<double>& values);
  /// As hexadecimal floats in strings, "0x1.8p+1": every bit is kept.
  void bits(std::string_view name, const std::vector<double>& values);
  /// `value` is JSON already, in one line.
  void json(std::string_view name, std::string_view value) { member(name, value); }
  std::string take();

 private:
  void member(std::string_view name, std::string_view value);

  std::string lines_;
};

}  // namespace tandem::train
