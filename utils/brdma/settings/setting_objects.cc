// `brdma system`: versions, every setting with the source of its value, the daemon's end.

#include <array>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "control/config.h"
#include "control/definitions.h"
#include "control/unknown_words.h"
#include "grammar/help.h"
#include "io/daemon/daemon_client.h"
#include "objects.h"
#include "programs.h"
#include "settings/settings_report.h"

namespace brdma {
namespace {

// Takes "show [CONFIG WORD]"; the words behind show.
std::vector<std::string> parse_show(Invocation& invocation) {
  Words& words = invocation.words;
  std::vector<std::string> rest;
  constexpr std::array<std::string_view, 2> kShow{"show", "list"};
  bool first = true;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string word = words.take();
    if (!(first && find_word(word, kShow) >= 0)) rest.push_back(word);
    first = false;
  }
  return rest;
}

std::string library_or_none() {
  try {
    return find_library();
  } catch (const ProgramMissing&) {
    return "";
  }
}

// The program of `brdma metrics`. Without: null, in text the reason.
Json metrics_or_none(const OutputStyle& style) {
  try {
    return metrics_program();
  } catch (const ProgramMissing&) {
    return style.json ? Json(nullptr) : Json("none: built without prometheus-cpp");
  }
}

// Null: none runs. Whether it keeps users apart is not for those whom it does not serve.
Json running_daemon() {
  auto daemon = io::query_daemon({{"query", "version"}});
  if (!daemon.ok()) return nullptr;
  const auto config = io::query_daemon({{"query", "config"}});
  if (config.ok() && config.value().contains("users_kept_apart"))
    daemon.value()["users_kept_apart"] = config.value()["users_kept_apart"];
  return daemon.value();
}

// Ends the brdmad of this network namespace; while programs use it only with --force.
int shut_down(Invocation& invocation) {
  Words& words = invocation.words;
  bool force = false;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string word = words.take();
    if (word != "--force") throw grammar::unexpected(word, "system", "shutdown");
    force = true;
  }
  const auto answer = io::query_daemon({{"query", "shutdown"}, {"force", force}});
  if (!answer.ok()) {
    const bool busy = answer.reason().error == EBUSY;
    throw std::runtime_error(
        busy ? "programs use brdmad ('brdma resource show ctx' lists them): --force ends it all the same"
             : answer.reason().message);
  }
  print_records({{"", {{"leases_ended", answer.value().at("leases_ended")}}}}, invocation.style);
  return 0;
}

Record setting_record(const control::SettingReport& report, const OutputStyle& style) {
  const std::string source{control::name(report.source)};
  Record record;
  if (style.complete()) {
    record.fields = {{"key", report.key},        {"value", report.value},       {"source", source},
                     {"where", report.where},    {"variable", report.variable}, {"allowed", report.allowed},
                     {"meaning", report.meaning}};
    if (const control::Definition* const definition = control::find_definition(report.key); definition != nullptr) {
      record.fields["default"] = control::value_text(*definition, control::Settings{});
      record.fields["applies"] = control::name(definition->applies);
    }
    return record;
  }
  record.fields[std::string{report.key}] = report.value.empty() ? "\"\"" : report.value;
  record.fields["source"] = report.where.empty() ? source : source + " (" + report.where + ")";
  if (style.details > 0) {
    record.fields.update({{"variable", report.variable}, {"allowed", report.allowed}, {"meaning", report.meaning}});
  }
  return record;
}

}  // namespace

int print_settings(std::string_view prefix, const OutputStyle& style) {
  const control::LoadedSettings loaded = control::load_settings();
  OutputStyle as_list = style;
  as_list.lists = true;
  std::vector<Record> records;
  for (const control::SettingReport& report : loaded.reports) {
    if (report.key.starts_with(prefix)) records.push_back(setting_record(report, as_list));
  }
  print_records(records, as_list, "key value source where?");
  for (const std::string& error : loaded.errors) print_error(error);
  for (const std::string& warning : control::unknown_variables()) print_error(warning);
  return loaded.errors.empty() ? 0 : 1;
}

int system_object(Invocation& invocation) {
  Words& first = invocation.words;
  while (!first.empty() && take_style_option(first, invocation.style)) {
  }
  constexpr std::array<std::string_view, 3> kCommands{"show", "list", "shutdown"};
  if (!first.empty() && find_word(first.peek(), kCommands) == 2) {
    first.take();
    return shut_down(invocation);
  }
  const std::vector<std::string> words = parse_show(invocation);
  constexpr std::array<std::string_view, 1> kWhat{"config"};
  if (words.size() == 1 && find_word(words[0], kWhat) == 0) return print_settings("", invocation.style);
  if (!words.empty()) throw grammar::unexpected(words[0], "system");
  Record record{"", {{"version", BRDMA_VERSION}, {"library", library_or_none()}}};
  record.fields["metrics"] = metrics_or_none(invocation.style);
  record.fields["brdmad"] = running_daemon();
  print_records({record}, invocation.style);
  return 0;
}

}  // namespace brdma
