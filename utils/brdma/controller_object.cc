// `brdma controller`: state of the controller of a wide-area network (docs/explanation/wan.md).

#include <array>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/help.h"
#include "io/daemon/daemon_client.h"
#include "objects.h"

namespace brdma {
namespace {

constexpr std::array<std::string_view, 5> kLists{"links", "switches", "prefixes", "hosts", "counters"};

Json ask(const std::string& name, const char* command) {
  const auto answer = io::ask_at(name, {{"command", command}});
  if (answer.ok()) return answer.value();
  if (answer.reason().error == ECONNREFUSED)
    throw std::runtime_error("no brdma-controller listens at @" + name +
                             " in this network namespace: start one, or name its socket by 'at @NAME'");
  throw std::runtime_error(answer.reason().message);
}

void show_summary(const Json& state, const OutputStyle& style) {
  Record record{"controller", {}};
  for (const char* key : {"epoch", "recovering", "congested_links", "congested_links_max"})
    record.fields[key] = state.at(key);
  for (const char* key : {"switches", "links", "prefixes", "hosts"}) record.fields[key] = state.at(key).size();
  print_records({record}, style);
}

// The heading of an entry, with its kind: "link s1 s2.2", "switch s1".
std::string head_of(std::string_view list, const Json& entry) {
  if (list == "links") return "link " + entry.at("from").get<std::string>() + "/" + entry.at("port").get<std::string>();
  const char* const key = list == "switches" ? "switch" : list == "prefixes" ? "prefix" : "host";
  return std::string{key} + " " + entry.at(key).get<std::string>();
}

void show_list(const Json& state, std::string_view list, const OutputStyle& style) {
  const Json& entries = state.at(std::string{list});
  if (list == "counters") return print_records({{"controller", entries}}, style);
  std::vector<Record> records;
  for (const Json& entry : entries) {
    Record record{head_of(list, entry), entry};
    if (!style.complete()) record.fields.erase(record.fields.begin());  // the head has it
    records.push_back(std::move(record));
  }
  print_records(records, style);
}

// The words behind `controller`.
struct ControllerRequest {
  std::string name = "brdma-controller";
  std::string_view list;  // empty: a summary
  bool stop = false;
};

ControllerRequest take_controller_request(Invocation& invocation) {
  Words& words = invocation.words;
  ControllerRequest request;
  constexpr std::array<std::string_view, 3> kCommands{"show", "list", "stop"};
  for (bool first = true; !words.empty();) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string word = words.take();
    if (word == "at") {
      request.name = words.take_value(word);
      if (request.name.starts_with("@")) request.name.erase(0, 1);
    } else if (const int command = find_word(word, kCommands); first && command >= 0) {
      request.stop = command == 2;
    } else if (const int which = find_word(word, kLists); which >= 0 && request.list.empty() && !request.stop) {
      request.list = kLists[static_cast<std::size_t>(which)];
    } else {
      throw grammar::unexpected(word, "controller");
    }
    first = false;
  }
  return request;
}

}  // namespace

int controller_object(Invocation& invocation) {
  const ControllerRequest request = take_controller_request(invocation);
  if (request.stop) {
    (void)ask(request.name, "stop");
    return 0;
  }
  const Json state = ask(request.name, "show");
  if (request.list.empty()) {
    show_summary(state, invocation.style);
  } else {
    show_list(state, request.list, invocation.style);
  }
  return 0;
}

}  // namespace brdma
