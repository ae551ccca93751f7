// A manual page in the macros of man(7).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tandem/version.hpp>

#include "manual/manual.hpp"

namespace tandem::manual {
namespace {

using cli::argument_description;
using cli::command_description;
using cli::option_description;

/// Whether a word is typed as it stands: its hyphens are then minus signs, which can be copied.
bool is_literal(std::string_view word) {
  return word.find("--") != std::string_view::npos || word.starts_with('-') ||
         std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::string escape_word(std::string_view word, bool literal) {
  std::string made;
  for (const char c : word) {
    switch (c) {
      case '\\':
        made += "\\e";
        break;
      case '-':
        made += literal ? "\\-" : "-";
        break;
      case '\'':
        made += "\\(aq";
        break;
      case '`':
        made += "\\(ga";
        break;
      case '^':
        made += "\\(ha";
        break;
      case '~':
        made += "\\(ti";
        break;
      case '"':
        made += "\\(dq";
        break;
      default:
        made += c;
    }
  }
  return made;
}

/// @param literal  every word is typed as it stands: names and examples
std::string escape(std::string_view text, bool literal = false) {
  std::string made;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    made += escape_word(word, literal || is_literal(word));
    if (end < text.size()) made += text[end];
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (made.starts_with('.')) made.insert(0, "\\&");
  return made;
}

std::string bold(std::string_view text) {
  return fmt::format("\\fB{}\\fR", escape(text, true));
}

std::string italic(std::string_view text) {
  return fmt::format("\\fI{}\\fR", escape(text, true));
}

std::string item(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", term, text);
}

std::string words_line(const std::vector<std::string>& words) {
  return fmt::format("\n.br\n{}", escape(fmt::format("{}", fmt::join(words, ", "))));
}

std::string default_of(const std::string& text) {
  return text.empty() ? "" : escape(fmt::format(" (default {})", text));
}

std::string option_item(const option_description& of) {
  // A page lists the words below the option, where lines can break.
  const bool lists_words = !of.words.empty() && !of.is_engine();
  const std::string value_name = lists_words ? "WORD" : of.value_name;
  const std::string value = of.is_flag() ? "" : ' ' + italic(value_name);
  std::string term;
  if (!of.short_name.empty()) term = bold('-' + of.short_name) + value + ", ";
  term += bold("--" + of.name) + value;
  std::string text = escape(of.help);
  if (lists_words) text += words_line(of.words);
  if (of.is_engine()) {
    text += fmt::format("\n.br\n{}, {}", bold(of.environment), escape(of.unit));
  }
  return item(term, text + default_of(of.default_text));
}

std::string argument_item(const argument_description& of) {
  std::string text = escape(of.help);
  if (!of.words.empty()) text += words_line(of.words);
  return item(italic(of.name), text + default_of(of.default_text));
}

std::string options_of(const command_description& command) {
  std::string text, engine;
  if (!command.name.empty()) {  // those of `tandem` are listed as its subcommands
    for (const argument_description& each : command.arguments) text += argument_item(each);
  }
  if (!command.rest.name.empty()) text += argument_item(command.rest);
  for (const option_description& each : command.options) {
    (each.is_engine() ? engine : text) += option_item(each);
  }
  text.insert(0, ".SH OPTIONS\n");
  if (engine.empty()) return text;
  return text +
         ".SH \"ENGINE OPTIONS\"\nEach can also be given as the variable below it; its unit or its "
         "valid words, and the default, follow.\n" +
         engine;
}

std::string see_also(const command_description& of, std::span<const command_description> all) {
  std::string text;
  for (const command_description& each : all) {
    if (each.name == of.name) continue;
    text += fmt::format("{}.BR {} (1)", text.empty() ? "" : ",\n", escape(page_name(each), true));
  }
  return text + '\n';
}

}  // namespace

std::string page_name(const command_description& command) {
  std::string name = command.name.empty() ? "tandem" : "tandem-" + command.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string page_of(const command_description& command, std::span<const command_description> all) {
  const std::string name = page_name(command);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"tandem {}\" \"Tandem\"\n"
      ".nh\n.ad l\n"  // names are not divided, and lines not stretched
      ".SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n{}{}{}\n"
      ".SH DESCRIPTION\n{}\n",
      escape(title, true), version(), escape(name, true), escape(command.summary),
      bold(command.text.command), command.text.arguments.empty() ? "" : " ",
      escape(command.text.arguments, true), escape(command.text.summary));
  if (command.name.empty()) {
    text += ".SH SUBCOMMANDS\n";
    for (const command_description& each : all) {
      if (!each.name.empty()) text += item(bold(each.name), escape(each.summary));
    }
  }
  text += options_of(command);
  text +=
      ".SH \"EXIT STATUS\"\n0 after success, 1 after a failure, 2 for a wrong command line; "
      "that of\n.BR tandem\\-run (1)\nis the status of its ranks.\n";
  if (!command.text.examples.empty()) {
    text += fmt::format(".SH EXAMPLES\n.nf\n{}.fi\n", escape(command.text.examples, true));
  }
  return text + ".SH \"SEE ALSO\"\n" + see_also(command, all);
}

}  // namespace tandem::manual
