#include "grammar/help.h"

#include <algorithm>
#include <cstdio>

#include "control/nearest_word.h"
#include "output.h"

namespace brdma::grammar {
namespace {

constexpr std::size_t kWidth = 96;
constexpr std::size_t kBehindOption = 26;

std::string option_line(std::string_view names, std::string_view value, std::string_view meaning) {
  std::string line = "  " + std::string{names} + (value.empty() ? "" : " " + std::string{value});
  const bool beside = line.size() + 2 <= kBehindOption;
  std::string text = wrapped(meaning, kBehindOption, kWidth);
  if (beside) text.replace(0, line.size(), line);
  return beside ? text : line + "\n" + text;
}

std::string option_lines(const std::vector<const Command*>& rows) {
  std::string text;
  std::vector<std::string_view> shown;
  for (const Command* row : rows) {
    for (const Option& option : row->options) {
      if (std::find(shown.begin(), shown.end(), option.names) != shown.end()) continue;
      shown.push_back(option.names);
      text += option_line(option.names, option.value, option.meaning);
    }
  }
  return text;
}

bool any_in_group(const std::vector<const Command*>& rows, unsigned group) {
  return std::any_of(rows.begin(), rows.end(), [group](const Command* row) { return (row->groups & group) != 0; });
}

std::string paragraphs(std::string_view prose, std::size_t indent) {
  std::string text;
  while (!prose.empty()) {
    const std::size_t end = prose.find("\n\n");
    text += (text.empty() ? "" : "\n") + wrapped(prose.substr(0, end), indent, kWidth);
    prose = end == prose.npos ? std::string_view{} : prose.substr(end + 2);
  }
  return text;
}

std::string all_objects() {
  std::string text = "Usage: brdma [-j|-p|-d] [-o KEY,KEY] OBJECT [COMMAND]\n" +
                     wrapped(
                         "Words may be abbreviated; the command is show where none is written. Help for an object "
                         "or command: the word help, or --help, anywhere behind it.",
                         7, kWidth) +
                     "\n";
  for (const Object& object : objects()) {
    std::string name = "  " + std::string{object.name};
    name.resize(14, ' ');
    text += name + std::string{object.meaning} + "\n";
  }
  text += "\n";
  for (const Option& option : common_options()) text += option_line(option.names, option.value, option.meaning);
  return text;
}

// Network options are of some of lab's commands; other lists are of all of an object's.
bool has_more(const Object& object, const Topic& topic, const std::vector<const Command*>& rows) {
  if (object.more == nullptr) return false;
  return topic.command.empty() || object.name != "lab" || any_in_group(rows, kNetworkOptions);
}

std::string example_lines(const Object& object) {
  std::string text;
  for (const std::string_view example : object.examples) {
    text += (text.empty() ? "\nExamples:\n  " : "  ") + std::string{example} + "\n";
  }
  return text;
}

void offer_all(NearestWord& nearest, const Object& object, std::string_view command) {
  for (const Command* row : rows_of(object, command)) {
    for (const std::string& keyword : keywords(*row)) nearest.offer(keyword);
    for (const std::string& name : option_names(*row)) nearest.offer(name);
  }
}

// "TEXT: did you mean 'x'? See HINT", or "TEXT: see HINT".
UsageError with_hint(const std::string& text, const NearestWord& nearest, const std::string& hint) {
  const std::string question = nearest.question();
  return UsageError(text + (question.empty() ? ": see " : question + " See ") + hint);
}

Json json_of(const Object& object) {
  Json commands = Json::array();
  for (const Command& row : object.commands) {
    commands.push_back({{"command", row.name},
                        {"arguments", row.arguments},
                        {"meaning", row.meaning},
                        {"options", option_names(row)}});
  }
  return {{"object", object.name}, {"meaning", object.meaning}, {"commands", commands}};
}

}  // namespace

std::string line_of(const Object& object, const Command& command) {
  std::string line = "brdma " + std::string{object.name};
  for (const std::string_view part : {command.name, command.arguments}) {
    if (!part.empty()) line.append(" ").append(part);
  }
  return line;
}

std::string wrapped(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out, line;
  const auto end_line = [&] {
    out += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (word.empty()) continue;
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) end_line();
    line += (line.empty() ? "" : " ") + std::string{word};
  }
  if (!line.empty()) end_line();
  return out;
}

std::string help_text(const Topic& topic) {
  if (topic.object == nullptr) return all_objects();
  const Object& object = *topic.object;
  const auto rows = rows_of(object, topic.command);
  std::string text;
  for (const Command* row : rows) {
    text += (text.empty() ? "Usage: " : "       ") + line_of(object, *row) + "\n" + wrapped(row->meaning, 11, kWidth);
  }
  if (const std::string options = option_lines(rows); !options.empty()) text += "\nOptions:\n" + options;
  if (any_in_group(rows, kSettingOptions)) {
    text += "\n" + wrapped("Each setting is an option, too: --age-max-us 80 ('brdma system show config' lists them).",
                           0, kWidth);
  }
  if (!object.prose.empty() && topic.command.empty()) text += "\n" + paragraphs(object.prose, 0);
  if (has_more(object, topic, rows)) text += "\n" + object.more();
  if (topic.command.empty()) text += example_lines(object);
  return text + "\n-j, -p, -d, -o KEY,KEY: 'brdma help'.\n";
}

std::string usage(std::string_view object, std::string_view command) {
  const Object* const found = find_object(object);
  std::string text;
  for (const Command* row : found == nullptr ? std::vector<const Command*>{} : rows_of(*found, command)) {
    text += (text.empty() ? "" : ", or ") + line_of(*found, *row);
  }
  return "expected: " + text;
}

UsageError unexpected(std::string_view word, std::string_view object, std::string_view command) {
  NearestWord nearest{word};
  if (const Object* const found = find_object(object)) offer_all(nearest, *found, command);
  return UsageError("'" + std::string{word} + "' is not expected here" + nearest.question() + " (" +
                    usage(object, command) + ")");
}

UsageError unknown_object(std::string_view word) {
  NearestWord nearest{word};
  for (const Object& object : objects()) nearest.offer(object.name);
  return with_hint("there is no object '" + std::string{word} + "'", nearest, "'brdma help'");
}

UsageError unknown_command(std::string_view word, std::string_view object) {
  NearestWord nearest{word};
  const Object* const found = find_object(object);
  for (const Command& row : found->commands) nearest.offer(row.name.substr(0, row.name.find(' ')));
  return with_hint("there is no command '" + std::string{object} + " " + std::string{word} + "'", nearest,
                   "'brdma " + std::string{object} + " help'");
}

UsageError unknown_option(std::string_view word, std::string_view object, std::string_view command) {
  NearestWord nearest{word};
  if (const Object* const found = find_object(object)) {
    for (const Command* row : rows_of(*found, command)) {
      for (const std::string& name : option_names(*row)) nearest.offer(name);
    }
  }
  for (const Option& option : object.empty() ? common_options() : std::span<const Option>{}) {
    nearest.offer(option.names.substr(option.names.find("--")));
  }
  return with_hint("there is no option '" + std::string{word} + "'", nearest,
                   "'brdma " + (object.empty() ? "" : std::string{object} + " ") + "help'");
}

}  // namespace brdma::grammar

namespace brdma {

int help_object(Invocation& invocation) {
  using namespace grammar;
  Words& words = invocation.words;
  take_style_options(words, invocation.style);
  Topic topic;
  if (!words.empty()) {
    const std::string word = words.take();
    topic.object = find_object(word);
    if (topic.object == nullptr) throw unknown_object(word);
  }
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string longer = topic.command + (topic.command.empty() ? "" : " ") + words.take();
    if (rows_of(*topic.object, longer).empty()) throw unknown_command(longer, topic.object->name);
    topic.command = longer;
  }
  if (!invocation.style.json) {
    std::fputs(help_text(topic).c_str(), stdout);
    return 0;
  }
  Json table = Json::array();
  for (const Object& object : objects()) {
    if (topic.object == nullptr || topic.object == &object) table.push_back(json_of(object));
  }
  print_json(table, invocation.style);
  return 0;
}

}  // namespace brdma
