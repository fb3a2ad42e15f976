#include "management.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <utility>

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
    throw UsageError("'" + text + "' is no queue pair number: 'brdma resource show qp' lists them");
  }
  return number;
}

constexpr const char* kNotUnderstood = "its answer is not understood";

void say_failed(const Json& answer, const std::string& what, int& failed) {
  ++failed;
  print_error(answer.at("comm").get<std::string>() + " pid " + answer.at("pid").dump() + ": " + what);
}

}  // namespace

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
  if (!target.device.empty()) question["device"] = target.device;
  if (target.qp) question["qp"] = *target.qp;
  const auto answer = io::query_daemon(question);
  if (answer.ok()) return std::optional<Json>(std::in_place, answer.value());
  if (answer.reason().error == ENOENT) {
    std::fprintf(stderr, "brdma: no brdmad runs in this network namespace: no program uses a device\n");
    return std::nullopt;
  }
  throw std::runtime_error(answer.reason().message);
}

std::vector<ProcessAnswer> process_answers(const Json& reply, const OutputStyle& style, int& failed) {
  std::vector<ProcessAnswer> answers;
  for (const Json& answer : reply.at("answers")) {
    const std::string device = answer.at("device");
    if (const auto error = answer.find("error"); error != answer.end()) {
      const auto message = error->is_object() ? error->find("message") : error->end();
      const bool said = error->is_object() && message != error->end() && message->is_string();
      say_failed(answer, said ? message->get<std::string>() : kNotUnderstood, failed);
      continue;
    }
    Record record{"dev " + device, {}};
    if (style.json) record.fields = {{"ifname", device}};
    record.fields.update({{"pid", answer.at("pid")}, {"comm", answer.at("comm")}});
    answers.push_back({std::move(record), answer});
  }
  return answers;
}

void for_each_answer(const Json& reply, const OutputStyle& style, int& failed,
                     const std::function<void(ProcessAnswer& answer)>& take) {
  for (ProcessAnswer& each : process_answers(reply, style, failed)) {
    try {
      take(each);
    } catch (const Json::exception&) {
      say_failed(each.answer, kNotUnderstood, failed);
    }
  }
}

}  // namespace brdma
