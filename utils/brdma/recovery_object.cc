// `brdma recovery`: loss detection and recovery; `brdma congestion`: limits of sending. Without a target: the settings
// that a program started now would get, and the source of each value. With one: the settings of running programs, and
// changes to them.

#include <array>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bitmaprdma/context.h"
#include "capabilities.h"
#include "control/definitions.h"
#include "control/unknown_words.h"
#include "grammar/help.h"
#include "management.h"
#include "settings/settings_report.h"

namespace brdma {
namespace {

// The two objects differ in their settings.
struct Subject {
  std::string_view object;
  bool congestion = false;

  [[nodiscard]] bool speaks_of(std::string_view key) const {
    if (key.starts_with("congestion.")) return congestion;
    return !congestion && (key.starts_with("recovery.") || key.starts_with("transfer.") || key.starts_with("wan."));
  }
  [[nodiscard]] std::string prefix() const { return std::string(object) + "."; }
};

// In text the settings are in the line, in JSON in an object of their own.
void put_settings(Record& record, const Subject& subject, const Json& settings, const OutputStyle& style) {
  Json own = Json::object();
  for (const auto& [key, value] : settings.get_ref<const Json::object_t&>()) {
    if (subject.speaks_of(key)) own[key] = value;
  }
  if (style.json) {
    record.fields["settings"] = own;
  } else {
    add_members(record.fields, own);
  }
}

void put_in_force(Record& record, const Json& in_force, const OutputStyle& style) {
  if (style.json) {
    record.fields["in_force"] = in_force;
  } else {
    add_members(record.fields, in_force);
  }
}

Record device_record(const Subject& subject, const std::string& device, const Json& kept, const OutputStyle& style) {
  Record record{"dev " + device + " set", {}};
  if (style.complete()) record.fields = {{"ifname", device}, {"scope", "device"}};
  put_settings(record, subject, kept.at("settings"), style);
  return record;
}

// The settings of a process, or of the queue pair that it was asked about.
void put_answer(Record& record, const Subject& subject, const Json& answer, bool of_qp, const OutputStyle& style) {
  if (style.complete()) record.fields["scope"] = of_qp ? "qp" : "process";
  if (of_qp) {
    add_members(record.fields, {{"lqpn", answer.at("lqpn")}, {"own_settings", answer.at("own_settings")}});
    put_in_force(record, answer.at("in_force"), style);
  }
  put_settings(record, subject, answer.at("settings"), style);
}

// Prints them; the exit code. Throws if no process has the queue pair that was named.
int print_answers(const std::vector<Record>& records, const Target& target, const OutputStyle& style, int failed) {
  print_records(records, style);
  if (target.qp && records.empty() && failed == 0) {
    throw std::runtime_error(no_queue_pair(*target.qp));
  }
  return failed == 0 ? 0 : 1;
}

int show_running(const Subject& subject, const Target& target, const OutputStyle& style) {
  const bool of_qp = target.qp.has_value();
  std::vector<Record> records;
  int failed = 0;
  if (const auto reply = ask_processes({{"query", "recovery"}}, target)) {
    for (const Json& device : of_qp ? Json::array() : reply->at("devices")) {
      records.push_back(device_record(subject, device.at("device").get<std::string>(), device, style));
    }
    for_each_answer(*reply, style, failed, [&](ProcessAnswer& each) {
      put_answer(each.record, subject, each.answer, of_qp, style);
      records.push_back(std::move(each.record));
    });
  }
  return print_answers(records, target, style, failed);
}

// What sets a key of another object.
std::string place_of(std::string_view key) {
  for (const std::string_view object : {"recovery", "congestion", "alarm"}) {
    if (key.starts_with(object)) return "use 'brdma " + std::string(object) + " set'";
  }
  return "it is set in a file or variable, as 'brdma system show config' shows";
}

// Throws UsageError, with the place or the nearest name, if it is none of the object's.
const control::Definition& setting_of(const Subject& subject, const std::string& key) {
  if (const std::string_view why = control::given_by_verbs(key); !why.empty() && !subject.congestion)
    throw UsageError(std::string(why));
  const control::Definition* definition = control::find_definition(subject.prefix() + key);  // `edn` is one of both
  if (definition == nullptr) definition = control::find_definition(key);
  const std::string object = "'brdma " + std::string(subject.object);
  if (definition == nullptr) {
    const std::string fault = control::no_such_setting(key);
    throw UsageError(fault + (fault.ends_with('?') ? " " : ": ") + object + " show' lists them");
  }
  if (!subject.speaks_of(definition->key)) {
    throw UsageError(std::string(definition->key) + " is no setting of " + object + "': " + place_of(definition->key));
  }
  return *definition;
}

// KEY VALUE ..., checked here so that a mistake is reported as misuse before anything changes.
Json take_changes(const Subject& subject, Words& words, OutputStyle& style) {
  Json changes = Json::object();
  control::Settings scratch;
  while (!words.empty()) {
    if (take_style_option(words, style)) continue;
    const std::string key = words.take();
    const control::Definition* const definition = &setting_of(subject, key);
    const std::string value = words.take_value(key);
    if (!control::assign(*definition, value, scratch)) {
      throw UsageError(key + " '" + value + "': expected " + control::allowed_text(*definition));
    }
    changes[std::string(definition->key)] = value;
  }
  if (changes.empty()) throw UsageError(grammar::usage(subject.object, "set"));
  return changes;
}

// One that is named, or the queue pair's; else all.
std::vector<std::string> devices_of(const Target& target) {
  if (!target.device.empty() || target.qp) return {target.device};
  std::vector<std::string> devices;
  for (const DeviceInfo& device : list_devices()) devices.push_back(device.name);
  if (devices.empty()) throw std::runtime_error("there is no device: see 'brdma dev show'");
  return devices;
}

// From when on each setting applies in a process, as it has answered.
void put_reach(Record& record, const Json& answer, bool of_qp, const OutputStyle& style) {
  record.fields["qp"] = answer.at("qp");
  Json reaches = Json::object();
  for (const auto& [key, reach] : answer.at("applies").get_ref<const Json::object_t&>()) {
    const auto& text = reach.get_ref<const std::string&>();
    reaches[key] = text == "now" ? "from now on" : "for " + text;
  }
  if (style.json) {
    record.fields["scope"] = of_qp ? "qp" : "process";
    record.fields["applies"] = answer.at("applies");
  } else {
    add_members(record.fields, reaches);
  }
}

int set(const Subject& subject, Invocation& invocation) {
  Words& words = invocation.words;
  Target target;
  while (!words.empty() && (take_style_option(words, invocation.style) || take_target(words, target))) {
  }
  const Json changes = take_changes(subject, words, invocation.style);
  const bool of_qp = target.qp.has_value();
  std::vector<Record> records;
  int failed = 0;
  for (const std::string& device : devices_of(target)) {
    target.device = device;
    const auto reply = ask_processes({{"query", "recovery_set"}, {"settings", changes}}, target);
    if (!reply) return 1;
    for (const Json& kept : of_qp ? Json::array() : reply->at("devices")) {
      records.push_back(device_record(subject, device, kept, invocation.style));
    }
    for_each_answer(*reply, invocation.style, failed, [&](ProcessAnswer& each) {
      put_reach(each.record, each.answer, of_qp, invocation.style);
      records.push_back(std::move(each.record));
    });
  }
  return print_answers(records, target, invocation.style, failed);
}

std::uint32_t number_behind(Words& words, const std::string& word, std::uint32_t min, std::uint32_t max) {
  const std::string text = words.take_value(word);
  std::uint32_t number = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || stopped != text.data() + text.size() || number < min || number > max) {
    throw UsageError(word + " '" + text + "': expected " + std::to_string(min) + ".." + std::to_string(max));
  }
  return number;
}

// A queue pair; `packets` only from a PSN on, and not of gaps.
bool is_retransmit_question(const Json& question, const Target& target) {
  if (!target.qp) return false;
  return !question.contains("count") || (question.contains("psn") && !question.contains("gaps"));
}

Json take_retransmit_question(Invocation& invocation, Target& target) {
  constexpr std::uint32_t kPsnMax = 0xFF'FFFF, kWindowMax = 1u << 20;
  Words& words = invocation.words;
  Json question = {{"query", "recovery_retransmit"}};
  while (!words.empty()) {
    if (take_style_option(words, invocation.style) || take_target(words, target)) continue;
    const std::string word = words.take();
    if (word == "psn" || word == "gap") {
      question["psn"] = number_behind(words, word, 0, kPsnMax);
      if (word == "gap") question["gaps"] = true;
    } else if (word == "packets") {
      question["count"] = number_behind(words, word, 1, kWindowMax);
    } else if (word == "gaps") {
      question["gaps"] = true;
    } else {
      throw grammar::unexpected(word, "recovery", "retransmit");
    }
  }
  if (!is_retransmit_question(question, target)) throw UsageError(grammar::usage("recovery", "retransmit"));
  return question;
}

// `recovery retransmit`: retransmits unacknowledged packets of a queue pair by hand, or requests missing ones from its
// peer.
int retransmit(Invocation& invocation) {
  Target target;
  const Json question = take_retransmit_question(invocation, target);
  std::vector<Record> records;
  int failed = 0;
  const auto reply = ask_processes(question, target);
  if (!reply) return 1;
  for_each_answer(*reply, invocation.style, failed, [&records](ProcessAnswer& each) {
    for (const char* key : {"lqpn", "psn", "packets", "gaps"})
      if (each.answer.contains(key)) each.record.fields[key] = each.answer.at(key);
    records.push_back(std::move(each.record));
  });
  return print_answers(records, target, invocation.style, failed);
}

// Three letters of it are enough.
bool is_capabilities(std::string_view word) {
  return word.size() > 2 && std::string_view{"capabilities"}.starts_with(word);
}

// `show capabilities`: the settings that there are.
int show_setting_capabilities(const Subject& subject, Invocation& invocation) {
  take_style_options(invocation.words, invocation.style);
  if (!invocation.words.empty()) {
    throw grammar::unexpected(invocation.words.peek(), subject.object, "show capabilities");
  }
  invocation.style.lists = true;
  std::vector<Record> records;
  for (const Json& row : setting_capabilities(subject.prefix())) records.push_back({"", row});
  print_records(records, invocation.style, "key default min? max? words? applies");
  return 0;
}

int settings_object(const Subject& subject, Invocation& invocation) {
  Words& words = invocation.words;
  constexpr std::array<std::string_view, 4> kCommands{"show", "list", "set", "retransmit"};
  const int command = take_command(invocation, kCommands);
  if (command == 3 && subject.congestion) throw grammar::unknown_command("retransmit", subject.object);
  if (command == 3) return retransmit(invocation);
  if (command == 2) return set(subject, invocation);
  if (!words.empty() && is_capabilities(words.peek())) {
    words.take();
    return show_setting_capabilities(subject, invocation);
  }
  Target target;
  bool running = false;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    if (!take_target(words, target)) throw grammar::unexpected(words.peek(), subject.object);
    running = true;
  }
  return running ? show_running(subject, target, invocation.style) : print_settings(subject.prefix(), invocation.style);
}

}  // namespace

int recovery_object(Invocation& invocation) { return settings_object({"recovery"}, invocation); }
int congestion_object(Invocation& invocation) { return settings_object({"congestion", true}, invocation); }

}  // namespace brdma
