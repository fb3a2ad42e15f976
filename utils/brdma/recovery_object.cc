// `brdma recovery`: how losses are found and repaired. Without a target: what a program that starts now would get, and
// where each value comes from. With one: what running programs have, and changes to it.

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bitmaprdma/context.h"
#include "capabilities.h"
#include "control/definitions.h"
#include "management.h"
#include "settings_report.h"

namespace brdma {
namespace {

constexpr const char* kUsage =
    "expected: brdma recovery [show [dev DEV] [qp QPN]], show capabilities, or brdma recovery set [dev DEV] [qp QPN] "
    "KEY VALUE ...";

// In text the settings stand in the line, in JSON in an object of their own.
void put_settings(Record& record, const char* name, const Json& settings, const OutputStyle& style) {
  if (style.json) {
    record.fields[name] = settings;
  } else {
    record.fields.update(settings);
  }
}

int show_running(const Target& target, const OutputStyle& style) {
  std::vector<Record> records;
  int failed = 0;
  if (const auto reply = ask_processes({{"query", "recovery"}}, target)) {
    for (const Json& device : reply->at("devices")) {
      if (target.qp) break;
      Record record{"dev " + device.at("device").get<std::string>() + " set", {}};
      if (style.json) record.fields = {{"ifname", device.at("device")}, {"scope", "device"}};
      put_settings(record, "settings", device.at("settings"), style);
      records.push_back(std::move(record));
    }
    for (auto& [record, answer] : process_answers(*reply, style, failed)) {
      if (style.json) record.fields["scope"] = target.qp ? "qp" : "process";
      if (target.qp) {
        record.fields.update({{"lqpn", answer.at("lqpn")}, {"own_settings", answer.at("own_settings")}});
        put_settings(record, "in_force", answer.at("in_force"), style);
      }
      put_settings(record, "settings", answer.at("settings"), style);
      records.push_back(std::move(record));
    }
  }
  print_records(records, style);
  if (target.qp && records.empty() && failed == 0) {
    throw std::runtime_error("no queue pair " + std::to_string(*target.qp));
  }
  return failed == 0 ? 0 : 1;
}

// KEY VALUE ..., checked here so that a slip is misuse, and says so before anything is changed.
Json take_changes(Words& words, OutputStyle& style) {
  Json changes = Json::object();
  control::Settings scratch;
  while (!words.empty()) {
    if (take_style_option(words, style)) continue;
    const std::string key = words.take();
    const control::Definition* const definition = control::find_definition(key);
    if (definition == nullptr ||
        (!definition->key.starts_with("recovery.") && !definition->key.starts_with("transfer."))) {
      throw UsageError("there is no setting '" + key + "': 'brdma recovery show' lists them");
    }
    const std::string value = words.take_value(key);
    if (!control::assign(*definition, value, scratch)) {
      throw UsageError(key + " '" + value + "': expected " + control::allowed_text(*definition));
    }
    changes[std::string(definition->key)] = value;
  }
  if (changes.empty()) throw UsageError(kUsage);
  return changes;
}

int set(Invocation& invocation) {
  Words& words = invocation.words;
  Target target;
  while (!words.empty() && (take_style_option(words, invocation.style) || take_target(words, target))) {
  }
  const Json changes = take_changes(words, invocation.style);
  std::vector<std::string> devices{target.device};
  if (target.device.empty() && !target.qp) {
    devices.clear();
    for (const DeviceInfo& device : list_devices()) devices.push_back(device.name);
    if (devices.empty()) throw std::runtime_error("there is no device: see 'brdma dev show'");
  }
  std::vector<Record> records;
  int failed = 0;
  for (const std::string& device : devices) {
    target.device = device;
    const auto reply = ask_processes({{"query", "recovery_set"}, {"settings", changes}}, target);
    if (!reply) return 1;
    for (const Json& kept : reply->at("devices")) {
      if (target.qp) break;
      Record record{"dev " + device + " set", {}};
      if (invocation.style.json) record.fields = {{"ifname", device}, {"scope", "device"}};
      put_settings(record, "settings", kept.at("settings"), invocation.style);
      records.push_back(std::move(record));
    }
    for (auto& [record, answer] : process_answers(*reply, invocation.style, failed)) {
      record.fields["qp"] = answer.at("qp");
      if (invocation.style.json) {
        record.fields["scope"] = target.qp ? "qp" : "process";
        record.fields["applies"] = answer.at("applies");
      } else {
        for (const auto& [key, reach] : answer.at("applies").items()) record.fields[key] = "applies to";
        for (const auto& [key, reach] : answer.at("applies").items()) {
          record.fields[key] = reach == "now" ? "from now on" : "for " + reach.get<std::string>();
        }
      }
      records.push_back(std::move(record));
    }
  }
  print_records(records, invocation.style);
  if (target.qp && records.empty() && failed == 0) {
    throw std::runtime_error("no queue pair " + std::to_string(*target.qp));
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

int recovery_object(Invocation& invocation) {
  Words& words = invocation.words;
  while (!words.empty() && take_style_option(words, invocation.style)) {
  }
  constexpr std::array<std::string_view, 3> kCommands{"show", "list", "set"};
  const int command = words.empty() ? 0 : find_word(words.peek(), kCommands);
  if (command == 2) {
    words.take();
    return set(invocation);
  }
  if (command >= 0 && !words.empty()) words.take();
  Target target;
  bool running = false;
  if (!words.empty() && words.peek().size() > 2 && std::string_view{"capabilities"}.starts_with(words.peek())) {
    words.take();
    while (!words.empty() && take_style_option(words, invocation.style)) {
    }
    if (!words.empty()) throw UsageError(kUsage);
    std::vector<Record> records;
    for (const Json& row : recovery_capabilities()) records.push_back({"", row});
    print_records(records, invocation.style);
    return 0;
  }
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    if (!take_target(words, target)) throw UsageError(kUsage);
    running = true;
  }
  return running ? show_running(target, invocation.style) : print_settings("recovery.", invocation.style);
}

}  // namespace brdma
