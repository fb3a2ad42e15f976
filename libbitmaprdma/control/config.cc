#include "control/config.h"

#include <fcntl.h>
#include <unistd.h>

#define TOML_EXCEPTIONS 0  // this code runs inside applications
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sstream>

#include "base/toml_text.h"
#include "control/definitions.h"
#include "control/unknown_words.h"

namespace brdma::control {
namespace {

constexpr std::size_t kFileMax = 1u << 20;

// Collects values layer by layer.
struct Loader {
  LoadedSettings result;

  Loader() {
    for (const Definition& definition : definitions()) {
      result.reports.push_back({definition.key,
                                definition.variable,
                                {},
                                SettingSource::kDefault,
                                {},
                                allowed_text(definition),
                                definition.meaning});
    }
  }
  void take(std::size_t index, std::string_view text, SettingSource source, const std::string& where) {
    const Definition& definition = definitions()[index];
    if (!assign(definition, text, result.settings)) {
      result.errors.push_back(where + ": " + std::string(definition.key) + " = '" + std::string(text) +
                              "' is not allowed; allowed: " + allowed_text(definition));
      return;
    }
    result.reports[index].source = source;
    result.reports[index].where = where;
  }
};

std::optional<std::string> read_file(const std::string& path, std::vector<std::string>& errors) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno != ENOENT && errno != ENOTDIR) errors.push_back(path + ": cannot be read: " + std::strerror(errno));
    return std::nullopt;
  }
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while ((got = ::read(fd, buffer.data(), buffer.size())) > 0 && text.size() < kFileMax) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  if (got != 0) errors.push_back(path + ": cannot be read: " + (got < 0 ? std::strerror(errno) : "more than 1 MiB"));
  ::close(fd);
  return got == 0 ? std::optional(text) : std::nullopt;
}

// The value in the form of a BRDMA_... variable.
std::string spelled(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return "(not a value)";
}

std::string place(const std::string& path, const toml::node& node) {
  return path + ":" + std::to_string(node.source().begin.line);
}

void take_entry(Loader& loader, const std::string& path, const std::string& key, const toml::node& node,
                SettingSource source) {
  const auto all = definitions();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].key == key) return loader.take(i, spelled(node), source, place(path, node));
  }
  loader.result.errors.push_back(place(path, node) + ": " + no_such_setting(key));
}

void load_file(Loader& loader, const std::string& path, SettingSource source) {
  if (path.empty()) return;
  const auto text = read_file(path, loader.result.errors);
  if (!text) return;
  if (const auto stray = stray_character(*text)) {
    loader.result.errors.push_back(path + ":" + std::to_string(stray->line) +
                                   ": not TOML: " + std::string{stray->what});
    return;
  }
  const toml::parse_result parsed = toml::parse(*text, std::string_view(path));
  if (!parsed) {
    const auto& error = parsed.error();
    loader.result.errors.push_back(path + ":" + std::to_string(error.source().begin.line) +
                                   ": not TOML: " + std::string(error.description()));
    return;
  }
  for (auto&& [table_name, table_node] : parsed.table()) {
    const auto* table = table_node.as_table();
    if (table == nullptr) {
      take_entry(loader, path, std::string(table_name.str()), table_node, source);
      continue;
    }
    for (auto&& [name, node] : *table) {
      take_entry(loader, path, std::string(table_name.str()) + "." + std::string(name.str()), node, source);
    }
  }
}

// A brdmad of another version may name unknown settings: they are skipped.
void load_device(Loader& loader, std::string_view lines) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const std::size_t equals = line.find('=');
    const Definition* const definition = find_definition(line.substr(0, equals));
    if (equals == line.npos || definition == nullptr) continue;
    loader.take(static_cast<std::size_t>(definition - definitions().data()), line.substr(equals + 1),
                SettingSource::kDevice, "brdma recovery set");
  }
}

std::optional<std::string> variable_of_process(const char* variable_name) {
  const char* value = ::secure_getenv(variable_name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace

std::string_view name(SettingSource source) {
  constexpr std::array<std::string_view, 5> kNames{"default", "system file", "user file", "device", "environment"};
  return kNames[static_cast<std::size_t>(source)];
}

SettingPlaces default_places() {
  SettingPlaces places;
  places.system_file = "/etc/bitmaprdma.toml";
  places.variable = &variable_of_process;
  if (const char* folder = ::secure_getenv("XDG_CONFIG_HOME"); folder != nullptr && *folder == '/') {
    places.user_file = std::string(folder) + "/bitmaprdma.toml";
  } else if (const char* home = ::secure_getenv("HOME"); home != nullptr && *home == '/') {
    places.user_file = std::string(home) + "/.config/bitmaprdma.toml";
  }
  return places;
}

LoadedSettings load_settings(const SettingPlaces& places) {
  Loader loader;
  load_file(loader, places.system_file, SettingSource::kSystemFile);
  load_file(loader, places.user_file, SettingSource::kUserFile);
  load_device(loader, places.device);
  const auto all = definitions();
  for (std::size_t i = 0; i < all.size() && places.variable != nullptr; ++i) {
    const std::string variable(all[i].variable);
    if (const auto value = places.variable(variable.c_str()); value && !value->empty()) {  // empty: as if unset
      loader.take(i, *value, SettingSource::kEnvironment, variable);
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    loader.result.reports[i].value = value_text(all[i], loader.result.settings);
  }
  return std::move(loader.result);
}

Settings load_settings_or_warn(const std::string& device) {
  static std::once_flag warned;
  SettingPlaces places = default_places();
  places.device = device;
  LoadedSettings loaded = load_settings(places);
  std::call_once(warned, [&loaded] {
    std::vector<std::string> faults = loaded.errors;
    for (std::string& warning : unknown_variables()) faults.push_back(std::move(warning));
    if (faults.empty()) return;
    const std::size_t more = faults.size() - 1;
    const std::string rest = more == 0 ? "" : " (and " + std::to_string(more) + " more: brdma system show config)";
    std::fprintf(stderr, "libbitmaprdma: %s%s\n", faults.front().c_str(), rest.c_str());
  });
  return std::move(loaded.settings);
}

}  // namespace brdma::control
