// `brdma managed`: destinations to which running programs reduce their rate because links are congested (design WT-10).

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "control/address_text.h"
#include "control/report.h"
#include "control/wan_report.h"
#include "grammar/help.h"
#include "management.h"

namespace brdma {
namespace {

constexpr std::string_view kColumns = "ifname destination rate_mbps full_mbps weight_percent managed_ms pid? comm";

int show(const Target& target, const OutputStyle& style) {
  std::vector<Record> records;
  int failed = 0;
  if (const auto reply = ask_processes({{"query", "managed"}}, target)) {
    for_each_answer(*reply, style, failed, [&records](const ProcessAnswer& each) {
      std::vector<Record> of_one;
      for (const Json& row : each.answer.at("rows")) add_members(of_one.emplace_back(each.record).fields, row);
      records.insert(records.end(), of_one.begin(), of_one.end());
    });
  }
  print_records(records, style, kColumns);
  return failed == 0 ? 0 : 1;
}

// One row for each program concerned. If there is none, that is a failure: nothing was changed.
int change(const char* query, const std::string& address, const Target& target, const OutputStyle& style) {
  const auto reply = ask_processes({{"query", query}, {"destination", address}}, target);
  if (!reply) return 1;
  std::vector<Record> records;
  int failed = 0;
  for_each_answer(*reply, style, failed, [&records, &address](ProcessAnswer& each) {
    if (!each.answer.at("changed").get<bool>()) return;
    each.record.fields["destination"] = address;
    records.push_back(std::move(each.record));
  });
  if (records.empty() && failed == 0) {
    throw std::runtime_error(std::string_view{query} == "managed_add"
                                 ? "no program has a reliable connection to " + address +
                                       ": 'brdma resource show qp' has the peers"
                                 : "no program manages " + address + ": 'brdma managed' lists destinations");
  }
  print_records(records, style, "ifname pid comm destination");
  return failed == 0 ? 0 : 1;
}

std::string take_address(Words& words) {
  const std::string word = words.take();
  const auto parsed = parse_address(word);
  if (!parsed) throw UsageError("'" + word + "' is no address (" + grammar::usage("managed") + ")");
  return control::address_text(*parsed);
}

}  // namespace

int managed_object(Invocation& invocation) {
  Words& words = invocation.words;
  constexpr std::array<std::string_view, 4> kCommands{"show", "list", "add", "remove"};
  const int command = take_command(invocation, kCommands);
  const bool changes = command >= 2;
  invocation.style.lists = true;
  Target target;
  std::string address;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    if (words.peek() == "dev" || words.peek() == "link") {
      (void)take_target(words, target);
      continue;
    }
    if (!changes || !address.empty()) throw grammar::unexpected(words.peek(), "managed");
    address = take_address(words);
  }
  if (!changes) return show(target, invocation.style);
  if (address.empty()) throw UsageError(grammar::usage("managed", command == 2 ? "add" : "remove"));
  return change(command == 2 ? "managed_add" : "managed_remove", address, target, invocation.style);
}

}  // namespace brdma
