// grammar/table.h - the one table of the command line: objects, commands, arguments, options, each with a line of
// meaning. Made from it: help (help.h), man pages (manual.h), completion (completion.h), messages about misuse, and the
// check of the documents (`brdma -j help`). A new object or command is a row of objects.cc and a function of objects.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "grammar/rows.h"
#include "objects.h"

namespace brdma::grammar {

struct Object {
  std::string_view name;
  int (*run)(Invocation&);
  std::string_view meaning;
  std::span<const Command> commands;  // the first one is meant where none is written
  std::string_view prose = {};        // paragraphs, separated by an empty line; for the manual and its help
  std::span<const std::string_view> examples = {};
  std::string (*more)() = nullptr;  // lists that other tables have
};

// The order decides what an abbreviation means.
[[nodiscard]] std::span<const Object> objects();
// Those that stand before or behind any words.
[[nodiscard]] std::span<const Option> common_options();

// By a word, which may be an abbreviation; null: none.
[[nodiscard]] const Object* find_object(std::string_view word);
[[nodiscard]] const Command* find_command(const Object& object, std::string_view word);

// "-f, --follow" has the name "--follow".
[[nodiscard]] bool has_name(const Option& option, std::string_view word);
// Whether `word` is an option of the command, of its groups, or a common one, that is followed by a value.
[[nodiscard]] bool takes_value(const Command& command, std::string_view word);

// "BRDMA_AGE_MAX_US" -> "--age-max-us"
[[nodiscard]] std::string option_of_variable(std::string_view variable);

}  // namespace brdma::grammar
