#include "enable/in_force.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "enable/own_file.h"
#include "enable/places.h"
#include "enable/preload_list.h"

namespace brdma::enable {
namespace {

constexpr std::string_view kName = "libbitmaprdma";

Json row(const std::string& scope, const std::string& from, const std::string& library, const std::string& state,
         bool own) {
  return {{"scope", scope},     {"unit", nullptr}, {"from", from},
          {"library", library}, {"state", state},  {"by", own ? "brdma enable" : "others"}};
}

std::string state_of(const Tree& tree, const std::string& library) {
  if (library.find('/') == std::string::npos) return "in force";  // found by the loader's own list
  return tree.exists(library) ? "in force" : "library missing";
}

// The words with the library's name, in a text whose words end at any character that a path here cannot have.
std::vector<std::string> named_libraries(std::string_view text) {
  std::vector<std::string> found;
  for (std::size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at)) {
    constexpr std::string_view kEnds = " \t\n:;=\"'{}$*()";
    const std::size_t before = text.find_last_of(kEnds, at);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::size_t end = std::min(text.find_first_of(kEnds, at), text.size());
    std::string word{text.substr(begin, end - begin)};
    if (std::find(found.begin(), found.end(), word) == found.end()) found.push_back(std::move(word));
    at = end;
  }
  return found;
}

// Without lines that begin with "#".
std::string uncommented(const std::string& text) {
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (text[begin] != '#') kept += text.substr(begin, end - begin) + "\n";
    begin = end + 1;
  }
  return kept;
}

std::string driver_state(const Tree& tree, const std::string& plugin) {
  const std::size_t slash = plugin.rfind('/');
  if (slash == std::string::npos) return "in force";
  const std::vector<std::string> names = tree.list(plugin.substr(0, slash));
  const std::string start = plugin.substr(slash + 1) + "-rdmav";
  const bool there =
      std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name.starts_with(start); });
  return there ? "in force" : "library missing";
}

void add_place(const Tree& tree, const Place& place, std::vector<Json>& rows) {
  std::optional<std::string> text;
  try {
    text = tree.read(place.path);
  } catch (const EnableError&) {  // a directory, or not for this user
    return;
  }
  if (!text) return;
  if (place.scope == "all programs") {
    for (const Listed& listed : libraries_in(*text)) {
      if (listed.library.find(kName) == std::string::npos) continue;
      rows.push_back(
          row(place.scope, tree.shown(place.path), listed.library, state_of(tree, listed.library), listed.own));
    }
    return;
  }
  for (const std::string& library : named_libraries(uncommented(*text))) {
    const std::string state = place.scope == "driver" ? driver_state(tree, library) : state_of(tree, library);
    Json one = row(place.scope, tree.shown(place.path), library, state, is_own(*text));
    if (!place.unit.empty()) one["unit"] = place.unit;
    rows.push_back(std::move(one));
  }
}

// The library that the loader put into this program.
void add_this_process(std::vector<Json>& rows) {
  const Tree system{"/"};
  std::optional<std::string> maps;
  try {
    maps = system.read("/proc/self/maps");
  } catch (const EnableError&) {
  }
  if (!maps) return;
  for (const std::string& library : named_libraries(*maps)) {
    if (library.find(".so") != std::string::npos) {
      rows.push_back(row("this process", "/proc/self/maps", library, "in force", false));
    }
  }
}

void add_environment(const Tree& tree, std::vector<Json>& rows) {
  const char* value = std::getenv("LD_PRELOAD");
  if (value == nullptr) return;
  for (const std::string& library : named_libraries(value)) {
    rows.push_back(row("environment", "LD_PRELOAD", library, state_of(tree, library), false));
  }
}

}  // namespace

std::vector<Json> in_force(const Tree& tree) {
  std::vector<Json> rows;
  if (tree.is_system()) {
    add_this_process(rows);
    add_environment(tree, rows);
  }
  std::optional<Home> home;
  try {
    home = home_of_user();
  } catch (const EnableError&) {  // then a user has no place
  }
  for (const Place& place : places_in(tree, home ? &*home : nullptr)) add_place(tree, place, rows);
  return rows;
}

}  // namespace brdma::enable
