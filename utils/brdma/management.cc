#include "management.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "bitmaprdma/context.h"
#include "control/nearest_word.h"
#include "io/daemon/daemon_client.h"

namespace brdma {
namespace {

std::uint32_t queue_pair_number(const std::string& text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const char* const begin = text.data() + (hex ? 2 : 0);
  const char* const end = text.data() + text.size();
  std::uint32_t number = 0;
  const auto [stopped, error] = std::from_chars(begin, end, number, hex ? 16 : 10);
  if (error != std::errc{} || stopped != end || begin == end || number > 0xFF'FFFF) {
    throw UsageError("'" + text + "' is no queue pair number (0 to 16777215): 'brdma resource show qp' lists them");
  }
  return number;
}

constexpr const char* kNotUnderstood = "its answer is not understood";

// A member of an answer as text; empty: there is none, or it is something else.
std::string text_of(const Json& answer, const char* key) {
  const auto found = answer.is_object() ? answer.find(key) : answer.end();
  if (found == answer.end() || found->is_structured() || found->is_null()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

void print_failed(const Json& answer, const std::string& what, int& failed) {
  ++failed;
  const std::string comm = text_of(answer, "comm"), pid = text_of(answer, "pid");
  print_error((comm.empty() ? "a program" : comm) + (pid.empty() ? "" : " pid " + pid) + ": " + what);
}

// What the program refused; empty: it has answered.
std::string refusal_of(const Json& answer) {
  const auto error = answer.find("error");
  if (error == answer.end()) return {};
  const std::string message = text_of(*error, "message");
  return message.empty() ? kNotUnderstood : message;
}

// Throws Json::exception if a member is missing or of another type.
Record heading_of(const Json& answer, const OutputStyle& style) {
  const auto& device = answer.at("device").get_ref<const std::string&>();
  Record record{"dev " + device, Json::object()};
  if (style.complete()) record.fields["ifname"] = device;
  record.fields["pid"] = answer.at("pid").get<std::int64_t>();
  record.fields["comm"] = answer.at("comm").get_ref<const std::string&>();
  return record;
}

// As far as programs answer; a brdmad that does not is no reason for another error.
std::vector<std::uint32_t> queue_pairs() {
  std::vector<std::uint32_t> numbers;
  const auto reply = io::query_daemon({{"query", "resource"}, {"what", "qp"}});
  if (!reply.ok()) return numbers;
  for (const Json& answer : reply.value().value("answers", Json::array())) {
    const Json rows = answer.is_object() ? answer.value("rows", Json::array()) : Json::array();
    for (const Json& row : rows) {
      if (row.is_object() && row.contains("lqpn")) numbers.push_back(row.value("lqpn", 0u));
    }
  }
  return numbers;
}

std::vector<std::string> devices_of_daemon() {
  std::vector<std::string> names;
  const auto reply = io::query_daemon({{"query", "statistics"}});
  if (!reply.ok()) return names;
  for (const Json& device : reply.value().value("devices", Json::array())) names.push_back(text_of(device, "device"));
  return names;
}

}  // namespace

void require_device(const std::string& name) {
  NearestWord nearest{name};
  for (const DeviceInfo& device : list_devices()) {
    if (device.name == name) return;
    nearest.offer(device.name);
  }
  for (const std::string& device : devices_of_daemon()) {  // its interface may be gone
    if (device == name) return;
    nearest.offer(device);
  }
  const std::string question = nearest.question();
  throw std::runtime_error("no device " + name + (question.empty() ? ": see" : question + " See") +
                           " 'brdma dev show'");
}

bool has_queue_pair(std::uint32_t qp) {
  const std::vector<std::uint32_t> all = queue_pairs();
  return std::find(all.begin(), all.end(), qp) != all.end();
}

std::string no_queue_pair(std::uint32_t qp) {
  NearestWord nearest{std::to_string(qp)};
  for (const std::uint32_t other : queue_pairs()) nearest.offer(std::to_string(other));
  const std::string question = nearest.question();
  return "no queue pair " + std::to_string(qp) + (question.empty() ? ":" : question) +
         " 'brdma resource show qp' lists them";
}

int take_command(Invocation& invocation, std::span<const std::string_view> commands) {
  Words& words = invocation.words;
  take_style_options(words, invocation.style);
  if (words.empty()) return 0;
  const int command = find_word(words.peek(), commands);
  if (command >= 0) words.take();
  return command;
}

bool take_target(Words& words, Target& target) {
  const std::string word = words.peek();
  if (word == "dev" || word == "link") {
    words.take();
    std::string name = words.take_value(word);
    if (name.ends_with("/1")) name.resize(name.size() - 2);
    target.device = name;
    return true;
  }
  if (word == "qp" || word == "lqpn") {
    words.take();
    target.qp = queue_pair_number(words.take_value(word));
    return true;
  }
  return false;
}

std::optional<Json> ask_processes(Json question, const Target& target) {
  if (!target.device.empty()) {
    require_device(target.device);
    question["device"] = target.device;
  }
  if (target.qp) question["qp"] = *target.qp;
  const auto answer = io::query_daemon(question);
  if (answer.ok()) return std::optional<Json>(std::in_place, answer.value());
  if (answer.reason().error == ENOENT) {
    std::fprintf(stderr, "brdma: no brdmad runs in this network namespace: no program uses a device\n");
    return std::nullopt;
  }
  throw std::runtime_error(answer.reason().message);
}

void for_each_answer(const Json& reply, const OutputStyle& style, int& failed,
                     const std::function<void(ProcessAnswer& answer)>& take) {
  for (const Json& answer : reply.at("answers")) {
    try {
      if (const std::string refusal = refusal_of(answer); !refusal.empty()) {
        print_failed(answer, refusal, failed);
        continue;
      }
      ProcessAnswer each{heading_of(answer, style), answer};
      take(each);
    } catch (const Json::exception&) {
      print_failed(answer, kNotUnderstood, failed);
    }
  }
}

void add_members(Json& fields, const Json& members) {
  for (const auto& [key, value] : members.get_ref<const Json::object_t&>()) {
    if (!fields.contains(key)) fields[key] = value;
  }
}

}  // namespace brdma
