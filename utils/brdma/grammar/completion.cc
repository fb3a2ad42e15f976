// `brdma completion`: scripts for shells, and the candidates that they ask for: words of the table, devices, settings.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bitmaprdma/context.h"
#include "control/definitions.h"
#include "grammar/help.h"
#include "lab/commands/topology_option.h"
#include "lab/processes/client.h"
#include "trace/journal.h"

namespace brdma::grammar {
namespace {

// Each asks `brdma completion candidates -- WORDS`, the last word being the one that is typed. The answer is a word a
// line, or ":files", or ":program N": the words from N on (0: the first behind brdma) are a program's.
constexpr const char* kBash = R"bash(# bash completion of brdma: made by 'brdma completion bash'
_brdma() {
  local words
  COMPREPLY=()
  mapfile -t words < <("${COMP_WORDS[0]}" completion candidates -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  case ${words[0]-} in
    :files) mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"); compopt -o filenames 2>/dev/null ;;
    :program*)
      local first=$((${words[0]#:program } + 1))
      if declare -F _command_offset >/dev/null; then
        _command_offset "$first"
      elif ((COMP_CWORD == first)); then
        mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
      else
        mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
      fi ;;
    *) COMPREPLY=("${words[@]}") ;;
  esac
}
complete -F _brdma brdma
)bash";
constexpr const char* kZsh = R"zsh(#compdef brdma
# zsh completion of brdma: made by 'brdma completion zsh'
_brdma() {
  local -a candidates
  candidates=("${(@f)$(${words[1]} completion candidates -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  case ${candidates[1]} in
    :files) _files ;;
    :program*)
      local first=$((${candidates[1]#:program } + 1))
      shift $first words
      ((CURRENT -= first))
      _normal ;;
    *) compadd -a candidates ;;
  esac
}
if [[ ${funcstack[1]} == _brdma ]]; then _brdma "$@"; else compdef _brdma brdma; fi
)zsh";
constexpr const char* kFish = R"fish(# fish completion of brdma: made by 'brdma completion fish'
function __brdma_candidates
    set -l words (commandline -opc)
    set -l answer ($words[1] completion candidates -- $words[2..] (commandline -ct) 2>/dev/null)
    if string match -q ':files' -- $answer[1]
        __fish_complete_path (commandline -ct)
    else if string match -q ':program *' -- $answer[1]
        set -l first (math (string replace ':program ' '' -- $answer[1]) + 2)
        if test (count $words) -lt $first
            __fish_complete_command
        else
            complete -C (string join ' ' -- $words[$first..] (commandline -ct))
        end
    else
        string join \n -- $answer
    end
end
complete -c brdma -f -a '(__brdma_candidates)'
)fish";

using Candidates = std::vector<std::string>;

Candidates devices() {
  Candidates names;
  for (const DeviceInfo& device : list_devices()) names.push_back(device.name);
  return names;
}

Candidates hosts() {
  Candidates names;
  try {
    const Json lab = lab::describe_lab("lab");
    for (const Json& host : lab.at("hosts")) names.push_back(host.at("host"));
  } catch (const std::exception&) {  // there is none of that name
  }
  return names;
}

Candidates event_type_names() {
  Candidates names{"alarm_raised", "alarm_cleared", "events_lost"};
  for (const auto& type : trace::kEventTypes) names.emplace_back(type.name);
  return names;
}

// Settings that `brdma OBJECT set` changes, without their table.
Candidates keys_of(std::string_view object) {
  Candidates names;
  const std::string table = std::string{object} + ".";
  for (const control::Definition& definition : control::definitions()) {
    if (definition.key.starts_with(table)) names.emplace_back(definition.key.substr(table.size()));
  }
  return names;
}

Candidates words_of(const control::Definition& definition) {
  const auto* const choice = std::get_if<control::ChoiceSetting>(&definition.kind);
  return choice == nullptr ? Candidates{} : Candidates{choice->words.begin(), choice->words.end()};
}

// Of the value that a word in capitals stands for; ":files" where it is a file.
Candidates of_kind(std::string_view kind, std::string_view object) {
  if (kind == "DEV") return devices();
  if (kind == "HOST") return hosts();
  if (kind == "TYPE") return event_type_names();
  if (kind == "KEY") return keys_of(object);
  if (kind == "OBJECT" || kind == "PAGE") {
    Candidates names;
    for (const Object& each : objects()) names.push_back((kind == "PAGE" ? "brdma-" : "") + std::string{each.name});
    return names;
  }
  if (kind == "FILE" || kind == "FOLDER") return {":files"};
  if (kind == "NAME|FILE") return lab::topology_names();
  return {};
}

// "[dev DEV] [qp QPN] KEY VALUE ..." -> dev DEV qp QPN KEY VALUE
Candidates tokens_of(std::string_view arguments) {
  Candidates tokens;
  std::string token;
  for (const char c : std::string{arguments} + " ") {
    if (std::strchr(" []|.,", c) == nullptr) {
      token += c;
    } else if (!token.empty()) {
      tokens.push_back(std::exchange(token, {}));
    }
  }
  return tokens;
}

bool is_value(std::string_view token) { return token.front() >= 'A' && token.front() <= 'Z'; }

Candidates option_value(const Command& command, std::string_view word, std::string_view object) {
  for (const Option& option : command.options) {
    if (has_name(option, word)) return of_kind(option.value, object);
  }
  for (const control::Definition& definition : control::definitions()) {
    if (option_of_variable(definition.variable) == word) return words_of(definition);
  }
  return {};
}

// What may follow the word `before` in a row: the value of its keyword, or of its key; nothing: any word may come.
std::optional<Candidates> value_behind(const Command& row, const std::string& before, std::string_view object) {
  const Candidates tokens = tokens_of(row.arguments);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i] == before && is_value(tokens[i + 1])) return of_kind(tokens[i + 1], object);
  }
  const bool has_keys = std::find(tokens.begin(), tokens.end(), "KEY") != tokens.end();
  const control::Definition* const definition = has_keys ? control::find_definition(before) : nullptr;
  if (definition == nullptr) return std::nullopt;
  return words_of(*definition);
}

void add_row(Candidates& all, const Command& row, std::string_view object) {
  const Candidates tokens = tokens_of(row.arguments);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!is_value(tokens[i])) {
      if (tokens[i].front() >= 'a' && tokens[i].front() <= 'z') all.push_back(tokens[i]);
    } else if (i == 0 || is_value(tokens[i - 1])) {  // else it belongs to a keyword
      const Candidates some = of_kind(tokens[i], object);
      all.insert(all.end(), some.begin(), some.end());
    } else if (tokens[i] == "KEY" || tokens[i] == "TYPE") {
      const Candidates some = of_kind(tokens[i], object);
      all.insert(all.end(), some.begin(), some.end());
    }
  }
}

// The words of names behind those that are written: "show qp" gives qp behind show.
void add_names(Candidates& all, const Object& object, const std::string& written) {
  for (const Command* row : rows_of(object, written)) {
    std::string_view rest = row->name.substr(written.size());
    if (rest.starts_with(" ")) rest.remove_prefix(1);
    if (!rest.empty()) all.emplace_back(rest.substr(0, rest.find(' ')));
  }
}

Candidates next_words(const Walk& walk, const std::string& before, bool option) {
  const Object* const object = walk.topic().object;
  Candidates all;
  if (object == nullptr) {
    if (option) return option_names(Command{"", "", ""});
    return of_kind("OBJECT", "");
  }
  if (option) return option_names(*walk.command());
  const std::string& written = walk.topic().command;
  for (const Command* row : rows_of(*object, written.empty() ? walk.command()->name : std::string_view{written})) {
    if (const auto values = value_behind(*row, before, object->name)) return *values;
    add_row(all, *row, object->name);
  }
  add_names(all, *object, written);
  all.emplace_back("help");
  return all;
}

Candidates value_of(const Walk& walk, const std::string& option) {
  if (walk.command() == nullptr) return {};
  return option_value(*walk.command(), option, walk.topic().object->name);
}

Candidates candidates(const std::vector<std::string>& words) {
  Walk walk;
  std::string before;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool last = i + 1 == words.size();
    if (last && walk.value_next()) return value_of(walk, before);
    if (last && words[i].starts_with("-")) return next_words(walk, before, true);
    if (last && !walk.starts_program()) return next_words(walk, before, false);
    if (walk.step(words[i]) == Walk::Kind::kProgram)
      return {":program " + std::to_string(i + (words[i] == "--" ? 1 : 0))};
    before = words[i];
  }
  return {};
}

void print_candidates(const std::vector<std::string>& words) {
  const std::string typed = words.empty() ? std::string{} : words.back();
  std::vector<std::string> printed;
  for (const std::string& each : candidates(words)) {
    if (!each.starts_with(":") && !each.starts_with(typed)) continue;
    if (std::find(printed.begin(), printed.end(), each) != printed.end()) continue;
    printed.push_back(each);
    std::printf("%s\n", each.c_str());
  }
}

}  // namespace
}  // namespace brdma::grammar

namespace brdma {

int completion_object(Invocation& invocation) {
  Words& words = invocation.words;
  const std::string shell = words.empty() ? std::string{} : words.take();
  constexpr std::array<std::pair<std::string_view, const char*>, 3> kShells{
      {{"bash", grammar::kBash}, {"zsh", grammar::kZsh}, {"fish", grammar::kFish}}};
  if (shell == "candidates") {
    if (!words.empty() && words.peek() == "--") words.take();
    grammar::print_candidates(words.take_rest());
    return 0;
  }
  for (const auto& [name, script] : kShells) {
    if (shell != name || !words.empty()) continue;
    std::fputs(script, stdout);
    return 0;
  }
  if (shell.empty()) throw UsageError(grammar::usage("completion"));
  throw grammar::unexpected(shell, "completion");
}

}  // namespace brdma
