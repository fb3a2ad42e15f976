// `brdma event` and `brdma alarm`: events of the programs of this network namespace, and values out of bounds.

#include <poll.h>

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
#include "control/nearest_word.h"
#include "control/unknown_words.h"
#include "grammar/help.h"
#include "io/daemon/daemon_client.h"
#include "management.h"
#include "trace/journal.h"
#include "view/listing.h"

namespace brdma {
namespace {

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

constexpr std::array<std::string_view, 3> kDaemons{"alarm_raised", "alarm_cleared", "events_lost"};  // brdmad's own

bool is_type(const std::string& word) {
  return std::any_of(std::begin(trace::kEventTypes), std::end(trace::kEventTypes),
                     [&](const auto& type) { return type.name == word; }) ||
         std::find(kDaemons.begin(), kDaemons.end(), word) != kDaemons.end();
}

UsageError unknown_type(const std::string& word) {
  NearestWord nearest{word};
  for (const auto& type : trace::kEventTypes) nearest.offer(type.name);
  for (const std::string_view type : kDaemons) nearest.offer(type);
  for (const char* keyword : {"show", "follow", "since"}) nearest.offer(keyword);
  const std::string question = nearest.question();
  return UsageError("'" + word + "' is no type of event" + question + (question.empty() ? ": see" : " See") +
                    " 'brdma event help'");
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

Json ask_events(std::uint64_t after, bool wait) { return {{"query", "events"}, {"after", after}, {"wait", wait}}; }

void report_missing(const Json& reply, std::uint64_t after) {
  if (const auto missing = reply.at("missing").get<std::uint64_t>(); missing > 0 && after > 0) {
    std::fprintf(stderr, "brdma: %llu events came too fast\n", static_cast<unsigned long long>(missing));
  }
}

// The answers of one brdmad after another. One that comes later is waited for: its socket has a name and no file, and
// the kernel notifies nobody of those. So it is tried again, five times a second.
class FollowedDaemons {
 public:
  // `past`: past events too. A brdmad that comes later has none: all of its events are new.
  static FollowedDaemons from_now_on(bool past) {
    FollowedDaemons daemons;
    const auto reply = io::query_daemon(ask_events(0, false));
    if (past || !reply.ok()) return daemons;
    daemons.there_ = true;
    daemons.after_ = reply.value().at("newest").get<std::uint64_t>();
    return daemons;
  }
  // Events that are new, as soon as there are some, or after a time without any. Throws std::runtime_error if brdmad
  // refuses.
  Json next() {
    constexpr int kTryMs = 200;
    for (;;) {
      auto reply = io::query_daemon(ask_events(after_, there_));
      if (reply.ok()) {
        if (take(reply.value())) return reply.value();
        continue;
      }
      if (!is_gone(reply.reason().error)) throw std::runtime_error(reply.reason().message);
      report_wait();
      (void)::poll(nullptr, 0, kTryMs);
    }
  }

 private:
  static bool is_gone(int error) { return error == ENOENT || error == EPIPE || error == ECONNRESET; }
  // False: another brdmad than the last one answers, whose numbers begin again.
  bool take(const Json& reply) {
    there_ = true;
    waits_ = false;
    const auto newest = reply.at("newest").get<std::uint64_t>();
    const bool another = newest < after_;
    if (!another) report_missing(reply, after_);
    after_ = another ? 0 : newest;
    return !another;
  }
  void report_wait() {
    if (!waits_) print_error("no brdmad runs in this network namespace: waiting for the first program");
    waits_ = true;
    there_ = false;
  }

  std::uint64_t after_ = 0;  // number of the last event that is known
  bool there_ = false;       // a brdmad has answered: the next question waits
  bool waits_ = false;       // it is known that none is there
};

// One line for each event, as it comes; with JSON one object a line. Ends by a signal, or where the output is closed.
int follow(const EventFilter& filter, const OutputStyle& style, FollowedDaemons daemons) {
  for (;;) {
    const Json reply = daemons.next();
    for (const Json& event : reply.at("events")) {
      if (!matches(event, filter)) continue;
      if (style.json) {
        print_json(view::chosen(event, style.columns), style);
      } else {
        print_lines({record_of(event, style)}, style);
      }
    }
    flush_output();
  }
}

// The words behind `event`.
struct EventRequest {
  EventFilter filter;
  bool follows = false;
};

EventRequest take_event_request(Invocation& invocation) {
  Words& words = invocation.words;
  constexpr std::array<std::string_view, 2> kShow{"show", "list"};
  EventRequest request;
  for (bool first = true; !words.empty();) {
    if (take_style_option(words, invocation.style) || take_target(words, request.filter.target)) continue;
    const std::string word = words.take();
    if (word == "-f" || word == "--follow" || word == "follow") {
      request.follows = true;
    } else if (word == "since" || word == "--since") {
      request.filter.since_unix_ns = unix_ns() - seconds_of(words.take_value(word)) * 1'000'000'000;
    } else if (is_type(word)) {
      request.filter.types.push_back(word);
    } else if (!first || find_word(word, kShow) < 0) {
      throw unknown_type(word);
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
  if (style.json || !style.columns.empty()) {
    print_records(records, style);
  } else {
    print_lines(records, style);
  }
  return 0;
}

// KEY VALUE ... behind `alarm set`.
Json take_alarm_settings(Invocation& invocation) {
  Words& words = invocation.words;
  Json changes = Json::object();
  control::Settings scratch;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string key = words.take();
    const control::Definition* const definition = control::find_definition(key);
    if (definition == nullptr) {
      const std::string fault = control::no_such_setting(key);
      throw UsageError(fault + (fault.ends_with('?') ? " See" : ": see") + " 'brdma alarm help'");
    }
    if (!definition->key.starts_with("alarm.")) throw grammar::unexpected(key, "alarm", "set");
    const std::string value = words.take_value(key);
    if (!control::assign(*definition, value, scratch)) {
      throw UsageError(key + " '" + value + "': expected " + control::allowed_text(*definition));
    }
    changes[std::string(definition->key)] = value;
  }
  if (changes.empty()) throw UsageError(grammar::usage("alarm", "set"));
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
  print_records(records, style, "ifname alarm raised value threshold pid? comm");
  return failed == 0 ? 0 : 1;
}

}  // namespace

int event_object(Invocation& invocation) {
  const auto [filter, follows] = take_event_request(invocation);
  if (!filter.target.device.empty() && !follows) require_device(filter.target.device);
  const auto reply = follows ? std::optional<Json>{} : ask_processes(ask_events(0, false), {});
  if (!follows) return show_events(filter, invocation.style, reply ? *reply : Json(nullptr));
  return follow(filter, invocation.style, FollowedDaemons::from_now_on(filter.since_unix_ns != 0));
}

int alarm_object(Invocation& invocation) {
  constexpr std::array<std::string_view, 3> kCommands{"show", "list", "set"};
  invocation.style.lists = true;
  const bool sets = take_command(invocation, kCommands) == 2;
  Json question = {{"query", sets ? "alarm_set" : "alarms"}};
  if (sets) {
    question["settings"] = take_alarm_settings(invocation);
  } else {
    take_style_options(invocation.words, invocation.style);
    if (!invocation.words.empty()) throw grammar::unexpected(invocation.words.peek(), "alarm");
  }
  const auto reply = ask_processes(question, {});
  if (!reply && sets) return 1;
  return print_alarms(reply ? *reply : Json{{"answers", Json::array()}}, invocation.style);
}

}  // namespace brdma
