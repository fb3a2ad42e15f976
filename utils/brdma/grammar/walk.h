// grammar/walk.h - steps over the words of a command line, for help and completion.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/table.h"

namespace brdma::grammar {

// What help is about: nothing (all objects), an object, or those of its commands that begin with `command` ("show qp").
struct Topic {
  const Object* object = nullptr;
  std::string command;
};

// Takes the words behind `brdma`, one after the other.
class Walk {
 public:
  enum class Kind {
    kHelp,     // it asks for help
    kProgram,  // it, or the next one after "--", is a program's: do not step further
    kOther,
  };
  Kind step(const std::string& word);

  [[nodiscard]] const Topic& topic() const { return topic_; }
  // The row that is meant so far; null: there is no object yet.
  [[nodiscard]] const Command* command() const { return command_; }
  [[nodiscard]] bool command_written() const { return words_ != 0; }
  // A word that is no option would be a program's.
  [[nodiscard]] bool starts_program() const;
  [[nodiscard]] bool value_next() const { return value_next_; }  // the next word is the value of an option

 private:
  Kind take_object(const std::string& word);
  Kind take_word(const std::string& word);

  Topic topic_;
  const Command* command_ = nullptr;
  std::size_t words_ = 0, operands_ = 0;
  bool value_next_ = false;
};

// Rows whose name begins with the words of `command`; all, if that is empty.
[[nodiscard]] std::vector<const Command*> rows_of(const Object& object, std::string_view command);

// The topic, if the words ask for help: -h or --help anywhere, or the word help behind an object, but not as the value
// of an option, and not among the words of a program that is to be run.
[[nodiscard]] std::optional<Topic> asked_topic(const std::vector<std::string>& words);

// The words in lower case that stand for themselves in a command's arguments.
[[nodiscard]] std::vector<std::string> keywords(const Command& command);
// The names of all options of a command: its own, those of its groups, the common ones.
[[nodiscard]] std::vector<std::string> option_names(const Command& command);

}  // namespace brdma::grammar
