#include "enable/service_unit.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>

#include "words.h"

namespace brdma::enable {
namespace {

constexpr std::string_view kService = ".service";
constexpr std::string_view kUnitCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@";
constexpr std::string_view kVariable = "LD_PRELOAD=";
constexpr std::size_t kUnitNameMax = 255;

std::string variable_path(const char* variable, const std::string& otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value == '/' ? std::string{value} : otherwise;
}

// "foo@bar.service" -> "foo@.service"; others: "".
std::string template_of(const std::string& unit) {
  const std::size_t at = unit.find('@');
  return at == std::string::npos ? std::string{} : unit.substr(0, at + 1) + std::string{kService};
}

std::vector<std::string> names_of(const std::string& unit) {
  const std::string base = template_of(unit);
  return base.empty() || base == unit ? std::vector{unit} : std::vector{unit, base};
}

// The unit's file, and its drop-ins in the order of their names (as systemd reads them).
struct UnitFiles {
  std::string fragment;
  std::map<std::string, std::string> drop_ins;  // path by name
};

void add_drop_ins(const Tree& tree, const std::string& folder, UnitFiles& files) {
  for (const std::string& file : tree.list(folder)) {
    if (file.ends_with(".conf")) files.drop_ins.emplace(file, folder + "/" + file);  // the first folder's wins
  }
}

UnitFiles files_of(const Tree& tree, const std::vector<std::string>& folders, const std::string& unit) {
  UnitFiles files;
  for (const std::string& name : names_of(unit)) {
    for (const std::string& folder : folders) {
      if (files.fragment.empty() && tree.exists(folder + "/" + name)) files.fragment = folder + "/" + name;
      add_drop_ins(tree, folder + "/" + name + ".d", files);
    }
  }
  const std::string script = "/etc/init.d/" + unit.substr(0, unit.size() - kService.size());
  if (files.fragment.empty() && tree.exists(script)) files.fragment = script;
  return files;
}

// Lines with continued ones joined, comments left out.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::string joined;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] == '#' || line[first] == ';') continue;
    const bool goes_on = line.back() == '\\';
    if (goes_on) line.back() = ' ';
    joined += line.substr(joined.empty() ? first : 0);
    if (goes_on) continue;
    lines.push_back(std::move(joined));
    joined.clear();
  }
  if (!joined.empty()) lines.push_back(std::move(joined));
  return lines;
}

// Words, of which quotes hold parts together.
std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  for (const char c : text) {
    if (quote == 0 && (c == ' ' || c == '\t')) {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// The value behind "KEY=", blanks allowed around "="; nothing for another key.
std::optional<std::string> value_of(const std::string& line, std::string_view key) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos) return std::nullopt;
  const std::string name = line.substr(0, line.find_last_not_of(" \t", equals - 1) + 1);
  return name == key ? std::optional{line.substr(equals + 1)} : std::nullopt;
}

// A file that EnvironmentFile= names wins over every Environment=.
void refuse_environment_file(const Tree& tree, const std::string& value, const std::string& unit_file) {
  for (std::string file : words_in(value)) {
    if (file.starts_with('-')) file.erase(0, 1);
    if (!file.starts_with('/') || file.find_first_of("*?[%") != std::string::npos) continue;
    const std::optional<std::string> text = tree.read(file);
    if (!text) continue;
    for (const std::string& line : lines_of(*text)) {
      if (!line.starts_with(kVariable)) continue;
      throw EnableError{tree.shown(file) + " sets LD_PRELOAD for this unit (EnvironmentFile= of " +
                        tree.shown(unit_file) + "), which overrides drop-ins: add the library there by hand"};
    }
  }
}

// What the file makes of LD_PRELOAD, which was `value` before it.
std::string preload_after(const Tree& tree, const std::string& file, std::string value) {
  for (const std::string& line : lines_of(tree.read(file).value_or(""))) {
    if (const auto named = value_of(line, "EnvironmentFile")) refuse_environment_file(tree, *named, file);
    const std::optional<std::string> set = value_of(line, "Environment");
    if (!set) continue;
    const std::vector<std::string> words = words_in(*set);
    if (words.empty()) value.clear();
    for (const std::string& word : words) {
      if (word.starts_with(kVariable)) value = word.substr(kVariable.size());
    }
  }
  return value;
}

}  // namespace

Home home_of_user() {
  const char* variable = std::getenv("HOME");
  std::string home = variable != nullptr ? variable : "";
  if (home.empty() || home.front() != '/') {
    const passwd* entry = getpwuid(geteuid());
    home = entry != nullptr ? entry->pw_dir : "";
  }
  if (home.empty() || home.front() != '/') throw EnableError{"this user has no home directory: set HOME"};
  return {variable_path("XDG_CONFIG_HOME", home + "/.config"), variable_path("XDG_DATA_HOME", home + "/.local/share")};
}

std::string unit_name(const std::string& word) {
  static constexpr std::string_view kOthers[] = {".socket", ".timer", ".target", ".mount", ".path", ".slice", ".scope"};
  for (const std::string_view other : kOthers) {
    if (word.ends_with(other)) throw UsageError("'" + word + "' is no service: name the service that it starts");
  }
  const std::string name = word.ends_with(kService) ? word : word + std::string{kService};
  const bool bad = word.empty() || word == kService || name.size() > kUnitNameMax || word.front() == '.' ||
                   name.find_first_not_of(kUnitCharacters) != std::string::npos;
  if (bad) throw UsageError("'" + word + "' is no name of a systemd service: for example nginx.service");
  return name;
}

std::vector<std::string> unit_folders(const Home* home) {
  if (home == nullptr) {
    return {"/etc/systemd/system",           "/run/systemd/system",     "/run/systemd/generator",
            "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"};
  }
  return {home->configuration + "/systemd/user", "/etc/systemd/user", home->data + "/systemd/user",
          "/usr/local/lib/systemd/user", "/usr/lib/systemd/user"};
}

std::string present_preload(const Tree& tree, const std::vector<std::string>& folders, const std::string& unit,
                            const std::string& own_name) {
  const UnitFiles files = files_of(tree, folders, unit);
  if (files.fragment.empty()) {
    throw EnableError{"no unit " + unit + " in " + tree.shown(folders.front()) +
                      " or where packages put theirs: see '" + "systemctl list-unit-files --type=service'"};
  }
  std::string value = preload_after(tree, files.fragment, "");
  for (const auto& [name, path] : files.drop_ins) {
    if (name == own_name) continue;
    const std::string after = preload_after(tree, path, value);
    if (after != value && name > own_name) {
      throw EnableError{tree.shown(path) + " sets LD_PRELOAD after " + own_name + ": add the library there by hand"};
    }
    value = after;
  }
  return value;
}

}  // namespace brdma::enable
