// `brdma event` and `brdma alarm`: events of the programs of this network namespace, and values out of bounds.

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "control/definitions.h"
#include "management.h"
#include "trace/journal.h"

namespace brdma {
namespace {

constexpr const char* kEventUsage =
    "expected: brdma event [show] [-f] [dev DEV] [qp N] [since SECONDS] [TYPE...]; types: see 'brdma event help'";

struct EventFilter {
  Target target;
  std::int64_t since_unix_ns = 0;
  std::vector<std::string> types;
};

std::int64_t unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

constexpr std::int64_t kSinceHoursMax = 87'600;  // ten years; in nanoseconds it fits 64 bits

// "10", "10s", "5m", "2h"
std::int64_t seconds_of(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  const std::string unit{stopped, end};
  const std::int64_t factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (error != std::errc{} || factor == 0 || number < 0 || number > kSinceHoursMax * 3600 / factor) {
    throw UsageError("since '" + text + "': expected a time such as 10s, 5m or 2h, at most " +
                     std::to_string(kSinceHoursMax) + "h");
  }
  return number * factor;
}

bool is_type(const std::string& word) {
  constexpr std::array<std::string_view, 3> kDaemons{"alarm_raised", "alarm_cleared", "events_lost"};
  return std::any_of(std::begin(trace::kEventTypes), std::end(trace::kEventTypes),
                     [&](const auto& type) { return type.name == word; }) ||
         std::find(kDaemons.begin(), kDaemons.end(), word) != kDaemons.end();
}

void print_types() {
  std::printf("types: ");
  for (const auto& type : trace::kEventTypes) std::printf("%s ", std::string{type.name}.c_str());
  std::printf("alarm_raised alarm_cleared events_lost\n");
}

bool matches(const Json& event, const EventFilter& filter) {
  if (!filter.target.device.empty() && event.at("ifname") != filter.target.device) return false;
  if (filter.target.qp && (!event.contains("lqpn") || event.at("lqpn") != *filter.target.qp)) return false;
  if (event.at("time_unix_ns").get<std::int64_t>() < filter.since_unix_ns) return false;
  return filter.types.empty() ||
         std::find(filter.types.begin(), filter.types.end(), event.at("type").get<std::string>()) != filter.types.end();
}

std::string time_text(std::int64_t unix_time_ns) {
  const std::time_t seconds = unix_time_ns / 1'000'000'000;
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  std::array<char, 32> day{};
  std::array<char, 64> whole{};
  std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(whole.data(), whole.size(), "%s.%06d", day.data(), static_cast<int>(unix_time_ns / 1000 % 1'000'000));
  return whole.data();
}

Record record_of(const Json& event, const OutputStyle& style) {
  if (style.json) return {"", event};
  Record record{time_text(event.at("time_unix_ns").get<std::int64_t>()) + " " + event.at("type").get<std::string>() +
                    " dev " + event.at("ifname").get<std::string>(),
                Json::object()};
  for (const auto& [key, value] : event.items()) {
    if (key != "number" && key != "time_unix_ns" && key != "type" && key != "ifname") record.fields[key] = value;
  }
  return record;
}

Json ask_events(std::uint64_t after, bool wait) {
  const auto reply = ask_processes({{"query", "events"}, {"after", after}, {"wait", wait}}, {});
  if (!reply) return nullptr;
  if (const auto missing = reply->at("missing").get<std::uint64_t>(); missing > 0 && after > 0) {
    std::fprintf(stderr, "brdma: %llu events came too fast\n", static_cast<unsigned long long>(missing));
  }
  return *reply;
}

// One line for each event, as it comes; with JSON one object a line. Ends with the daemon, or by a signal.
int follow(const EventFilter& filter, const OutputStyle& style, Json reply) {
  while (!reply.is_null()) {
    for (const Json& event : reply.at("events")) {
      if (!matches(event, filter)) continue;
      if (style.json) {
        print_json(event, style);
      } else {
        print_records({record_of(event, style)}, style);
      }
    }
    std::fflush(stdout);
    reply = ask_events(reply.at("newest").get<std::uint64_t>(), true);
  }
  return 1;
}

// The words behind `event`.
struct EventRequest {
  EventFilter filter;
  bool follows = false;
  bool help = false;  // the words behind it do not count
};

EventRequest take_event_request(Invocation& invocation) {
  Words& words = invocation.words;
  constexpr std::array<std::string_view, 2> kShow{"show", "list"};
  EventRequest request;
  for (bool first = true; !words.empty() && !request.help;) {
    if (take_style_option(words, invocation.style) || take_target(words, request.filter.target)) continue;
    const std::string word = words.take();
    if (word == "-f" || word == "--follow" || word == "follow") {
      request.follows = true;
    } else if (word == "since" || word == "--since") {
      request.filter.since_unix_ns = unix_ns() - seconds_of(words.take_value(word)) * 1'000'000'000;
    } else if (word == "help") {
      request.help = true;
    } else if (is_type(word)) {
      request.filter.types.push_back(word);
    } else if (!first || find_word(word, kShow) < 0) {
      throw UsageError("'" + word + "' is no type of event; " + kEventUsage);
    }
    first = false;
  }
  return request;
}

// The logged events that match.
int show_events(const EventFilter& filter, const OutputStyle& style, const Json& reply) {
  std::vector<Record> records;
  if (!reply.is_null()) {
    for (const Json& event : reply.at("events")) {
      if (matches(event, filter)) records.push_back(record_of(event, style));
    }
  }
  print_records(records, style);
  return 0;
}

constexpr const char* kAlarmUsage =
    "expected: brdma alarm [show], or brdma alarm set KEY VALUE ...; keys: see 'brdma system show config'";

// KEY VALUE ... behind `alarm set`.
Json take_alarm_settings(Invocation& invocation) {
  Words& words = invocation.words;
  Json changes = Json::object();
  control::Settings scratch;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string key = words.take();
    const control::Definition* const definition = control::find_definition(key);
    if (definition == nullptr || !definition->key.starts_with("alarm.")) throw UsageError(kAlarmUsage);
    const std::string value = words.take_value(key);
    if (!control::assign(*definition, value, scratch)) {
      throw UsageError(key + " '" + value + "': expected " + control::allowed_text(*definition));
    }
    changes[std::string(definition->key)] = value;
  }
  if (changes.empty()) throw UsageError("expected: brdma alarm set KEY VALUE ...");
  return changes;
}

// The exit code.
int print_alarms(const Json& reply, const OutputStyle& style) {
  std::vector<Record> records;
  int failed = 0;
  for_each_answer(reply, style, failed, [&records](const ProcessAnswer& each) {
    std::vector<Record> of_one;
    for (const Json& alarm : each.answer.at("alarms")) add_members(of_one.emplace_back(each.record).fields, alarm);
    records.insert(records.end(), of_one.begin(), of_one.end());
  });
  print_records(records, style);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int event_object(Invocation& invocation) {
  const auto [filter, follows, help] = take_event_request(invocation);
  if (help) {
    std::printf("%s\n", kEventUsage);
    print_types();
    return 0;
  }
  Json reply = ask_events(0, false);
  if (!follows) return show_events(filter, invocation.style, reply);
  // Without `since`: new events only.
  if (!reply.is_null() && filter.since_unix_ns == 0) reply["events"] = Json::array();
  return follow(filter, invocation.style, std::move(reply));
}

int alarm_object(Invocation& invocation) {
  constexpr std::array<std::string_view, 3> kCommands{"show", "list", "set"};
  const bool sets = take_command(invocation, kCommands) == 2;
  Json question = {{"query", sets ? "alarm_set" : "alarms"}};
  if (sets) {
    question["settings"] = take_alarm_settings(invocation);
  } else {
    take_style_options(invocation.words, invocation.style);
    if (!invocation.words.empty()) throw UsageError(kAlarmUsage);
  }
  const auto reply = ask_processes(question, {});
  if (!reply && sets) return 1;
  return print_alarms(reply ? *reply : Json{{"answers", Json::array()}}, invocation.style);
}

}  // namespace brdma
