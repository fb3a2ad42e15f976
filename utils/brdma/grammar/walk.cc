#include "grammar/walk.h"

#include <algorithm>

#include "control/definitions.h"
#include "fabric/network.h"

namespace brdma::grammar {
namespace {

constexpr Command kNoCommand{"", "", ""};

bool is_help_option(std::string_view word) { return word == "-h" || word == "--help" || word == "-help"; }

void add_names(std::vector<std::string>& names, std::span<const Option> options) {
  for (const Option& option : options) {
    for (std::string_view rest = option.names; !rest.empty();) {
      const std::size_t comma = rest.find(", ");
      names.emplace_back(rest.substr(0, comma));
      rest = comma == rest.npos ? std::string_view{} : rest.substr(comma + 2);
    }
  }
}

// Letters of a word in lower case; others end it, capitals make it a value's name.
class KeywordReader {
 public:
  void read(std::string_view text) {
    for (const char c : text) {
      const bool lower = (c >= 'a' && c <= 'z') || c == '_' || c == '-';
      if (lower || (c >= 'A' && c <= 'Z') || c == '@') {
        word_ += c;
        plain_ = plain_ && lower;
      } else {
        end_word();
      }
    }
    end_word();
  }
  std::vector<std::string> words;

 private:
  void end_word() {
    if (!word_.empty() && plain_ && word_.front() != '-') words.push_back(word_);
    word_.clear();
    plain_ = true;
  }
  std::string word_;
  bool plain_ = true;
};

}  // namespace

std::vector<const Command*> rows_of(const Object& object, std::string_view command) {
  std::vector<const Command*> rows;
  for (const Command& row : object.commands) {
    if (row.name.starts_with(command)) rows.push_back(&row);
  }
  return rows;
}

Walk::Kind Walk::step(const std::string& word) {
  if (value_next_) {
    value_next_ = false;
    return Kind::kOther;
  }
  const bool passes_on = command_ != nullptr && command_->passes_on;
  if (word == "--" || (passes_on && word != "help")) return Kind::kProgram;
  if (is_help_option(word)) return Kind::kHelp;
  if (word.starts_with("-") && word.size() > 1) {
    value_next_ = takes_value(command_ != nullptr ? *command_ : kNoCommand, word);
    return Kind::kOther;
  }
  return topic_.object == nullptr ? take_object(word) : take_word(word);
}

bool Walk::starts_program() const {
  if (value_next_ || command_ == nullptr) return false;
  return operands_ >= command_->program_after && (words_ != 0 || command_->name.empty());
}

Walk::Kind Walk::take_object(const std::string& word) {
  if (word == "help") return Kind::kOther;  // help_object() does it
  topic_.object = find_object(word);
  if (topic_.object != nullptr) command_ = &topic_.object->commands.front();
  return Kind::kOther;
}

Walk::Kind Walk::take_word(const std::string& word) {
  if (word == "help" && words_ == 0) return Kind::kHelp;  // `run help`, too: a program of that name stands behind --
  if (starts_program()) return Kind::kProgram;
  const bool named = !command_->name.empty();
  if (word == "help") return Kind::kHelp;
  if (words_++ == 0 && named) {
    if (const Command* const found = find_command(*topic_.object, word)) {
      command_ = found;
      topic_.command = found->name.substr(0, found->name.find(' '));
      return Kind::kOther;
    }
  }
  const std::string longer = topic_.command + " " + word;
  const auto rows = topic_.command.empty() ? std::vector<const Command*>{} : rows_of(*topic_.object, longer);
  if (operands_++ == 0 && !rows.empty()) {
    topic_.command = longer;
    command_ = rows.front();
  }
  return Kind::kOther;
}

std::optional<Topic> asked_topic(const std::vector<std::string>& words) {
  Walk walk;
  for (const std::string& word : words) {
    const Walk::Kind kind = walk.step(word);
    if (kind == Walk::Kind::kHelp) return walk.topic();
    if (kind == Walk::Kind::kProgram) return std::nullopt;
  }
  return std::nullopt;
}

std::vector<std::string> keywords(const Command& command) {
  KeywordReader reader;
  reader.read(command.name);
  reader.read(command.arguments);
  return reader.words;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  add_names(names, command.options);
  add_names(names, common_options());
  if ((command.groups & kNetworkOptions) != 0) {
    for (const auto& option : fabric::network_options()) names.push_back("--" + std::string{option.name});
  }
  if ((command.groups & kSettingOptions) != 0) {
    for (const auto& definition : control::definitions()) names.push_back(option_of_variable(definition.variable));
  }
  return names;
}

}  // namespace brdma::grammar
