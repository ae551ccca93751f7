#include "json.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cli/text.hpp"

namespace tandem::train {
namespace {

std::string plain(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

template <class Write>
std::string list(const std::vector<double>& values, Write write) {
  std::string text(1, '[');
  for (const double value : values) {
    if (text.size() > 1) text += ',';
    text += write(value);
  }
  text += ']';
  return text;
}

}  // namespace

void json_object::member(std::string_view name, std::string_view value) {
  lines_ += fmt::format("{}{}: {}", lines_.empty() ? "{\n" : ",\n", cli::json_text(name), value);
}

void json_object::text(std::string_view name, std::string_view value) {
  member(name, cli::json_text(value));
}
void json_object::number(std::string_view name, double value) {
  member(name, plain(value));
}
void json_object::numbers(std::string_view name, const std::vector<double>& values) {
  member(name, list(values, plain));
}
void json_object::bits(std::string_view name, const std::vector<double>& values) {
  member(name, list(values, [](double value) { return fmt::format("\"{:a}\"", value); }));
}

std::string json_object::take() {
  return lines_.empty() ? "{}\n" : lines_ + "\n}\n";
}

}  // namespace tandem::train
