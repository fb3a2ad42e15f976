#include "grammar/table.h"

#include <algorithm>

#include "control/definitions.h"
#include "fabric/network.h"

namespace brdma::grammar {
namespace {

bool any_takes_value(std::span<const Option> options, std::string_view word) {
  return std::any_of(options.begin(), options.end(),
                     [word](const Option& option) { return !option.value.empty() && has_name(option, word); });
}

}  // namespace

const Object* find_object(std::string_view word) {
  for (const Object& object : objects()) {
    if (!word.empty() && object.name.starts_with(word)) return &object;
  }
  return nullptr;
}

const Command* find_command(const Object& object, std::string_view word) {
  for (const Command& command : object.commands) {
    const std::string_view name = command.name.substr(0, command.name.find(' '));
    if (!word.empty() && name.starts_with(word)) return &command;
  }
  return nullptr;
}

bool has_name(const Option& option, std::string_view word) {
  for (std::string_view names = option.names; !names.empty();) {
    const std::size_t comma = names.find(", ");
    if (names.substr(0, comma) == word) return true;
    names = comma == names.npos ? std::string_view{} : names.substr(comma + 2);
  }
  return false;
}

bool takes_value(const Command& command, std::string_view word) {
  if (any_takes_value(command.options, word) || any_takes_value(common_options(), word)) return true;
  if ((command.groups & kNetworkOptions) != 0) {
    for (const auto& option : fabric::network_options()) {
      if (word.size() > 2 && word.substr(2) == option.name) return true;
    }
  }
  if ((command.groups & kSettingOptions) == 0) return false;
  const auto all = control::definitions();
  return std::any_of(all.begin(), all.end(),
                     [word](const auto& definition) { return option_of_variable(definition.variable) == word; });
}

std::string option_of_variable(std::string_view variable) {
  std::string option = "--";
  for (const char c : variable.substr(sizeof "BRDMA_" - 1)) {
    const bool upper = c >= 'A' && c <= 'Z';
    option += c == '_' ? '-' : static_cast<char>(upper ? c - 'A' + 'a' : c);
  }
  return option;
}

}  // namespace brdma::grammar
