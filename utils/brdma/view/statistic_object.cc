// `brdma statistic`: counters of devices, processes, queue pairs and connection managers.

#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/help.h"
#include "management.h"
#include "objects.h"
#include "process_rows.h"
#include "view/listing.h"
#include "view/show_request.h"

namespace brdma {
namespace {

constexpr std::string_view kQueuePairColumns =
    "ifname lqpn sent_pkts accepted_pkts retransmitted_pkts gaps_promoted local_ack_timeout_err out_of_sequence? "
    "ffm_sent? ffm_received? dropped_pkts? pid? comm";

// Counters whose names begin so are shown together. The first that fits counts; what fits none is "other".
struct CounterGroup {
  std::string_view begin, name;
};
constexpr std::array kGroups{
    CounterGroup{"drop_", "dropped on arrival"},
    CounterGroup{"retransmit", "retransmissions"},
    CounterGroup{"reads_", "retransmissions"},
    CounterGroup{"resend_", "retransmissions"},
    CounterGroup{"replays_", "retransmissions"},
    CounterGroup{"local_ack_timeout", "retransmissions"},
    CounterGroup{"gaps_", "gaps"},
    CounterGroup{"cross_path_waits", "gaps"},
    CounterGroup{"misjudgement", "gaps"},
    CounterGroup{"tolerance_", "gaps"},
    CounterGroup{"out_of_sequence", "gaps"},
    CounterGroup{"duplicate_request", "gaps"},
    CounterGroup{"placed_early", "gaps"},
    CounterGroup{"held_", "gaps"},
    CounterGroup{"runs_refused", "gaps"},
    CounterGroup{"ffm_", "feedback"},
    CounterGroup{"edn_", "feedback"},
    CounterGroup{"sent_seq_nak", "feedback"},
    CounterGroup{"packet_seq_err", "feedback"},
    CounterGroup{"ack", "feedback"},
    CounterGroup{"stale_piggybacks", "feedback"},
    CounterGroup{"caps_", "feedback"},
    CounterGroup{"bitmap_qps", "queue pairs"},
    CounterGroup{"qps_", "queue pairs"},
    CounterGroup{"stalls_", "queue pairs"},
    CounterGroup{"retry_", "errors"},
    CounterGroup{"send_rnr", "errors"},
    CounterGroup{"rcvd_rnr", "errors"},
    CounterGroup{"resp_", "errors"},
    CounterGroup{"req_cqe", "errors"},
    CounterGroup{"uc_messages_dropped", "errors"},
    CounterGroup{"completions_overwritten", "errors"},
    CounterGroup{"send_failed", "errors"},
    CounterGroup{"peer_unreachable", "errors"},
    CounterGroup{"socket_overflow", "errors"},
    CounterGroup{"send_window_stalls", "congestion"},
    CounterGroup{"np_", "congestion"},
    CounterGroup{"rp_", "congestion"},
    CounterGroup{"pace_", "congestion"},
    CounterGroup{"credit_", "congestion"},
    CounterGroup{"send_blocked", "congestion"},
    CounterGroup{"path_", "paths"},
    CounterGroup{"link", "paths"},
    CounterGroup{"managed_", "paths"},
    CounterGroup{"controller_", "paths"},
    CounterGroup{"operation", "transfers"},
    CounterGroup{"transfers_", "transfers"},
    CounterGroup{"escape", "transfers"},
    CounterGroup{"write_events", "transfers"},
    CounterGroup{"local_", "local transfer"},
    CounterGroup{"fetch", "local transfer"},
    CounterGroup{"described_", "local transfer"},
    CounterGroup{"sent_", "traffic"},
    CounterGroup{"rcvd_", "traffic"},
    CounterGroup{"accepted_", "traffic"},
    CounterGroup{"xdp_", "traffic"},
    CounterGroup{"rdma_", "traffic"},
    CounterGroup{"rx_", "traffic"},
};
constexpr std::array<std::string_view, 12> kGroupOrder{
    "traffic",    "queue pairs", "gaps",  "feedback",  "retransmissions", "dropped on arrival",
    "congestion", "errors",      "paths", "transfers", "local transfer",  "other"};

std::string_view group_of(std::string_view counter) {
  for (const CounterGroup& group : kGroups) {
    if (counter.starts_with(group.begin)) return group.name;
  }
  return "other";
}

// A counter that is worth a line.
bool is_shown(const Json& value) { return !value.is_number() || value != 0; }

void print_group(const Record& record, std::string_view group) {
  constexpr int kNameWidth = 32, kNumberWidth = 16;
  bool headed = false;
  for (const auto& [key, value] : record.fields.items()) {
    if (group_of(key) != group || !is_shown(value)) continue;
    if (!headed) std::printf("  %s\n", std::string{group}.c_str());
    headed = true;
    const std::string text = value.is_number_unsigned()
                                 ? grouped(value.get<std::uint64_t>())
                                 : printable(value.is_string() ? value.get<std::string>() : value.dump());
    std::printf("    %-*s %*s\n", kNameWidth, printable(key).c_str(), kNumberWidth, text.c_str());
  }
}

// On a terminal without -d: what is not zero, in groups.
void print_counters(const std::vector<Record>& records, const OutputStyle& style) {
  if (style.json || !style.terminal || style.details > 0 || !style.columns.empty())
    return print_records(records, style);
  for (const Record& record : records) {
    std::printf("%s%s%s\n", view::takes_colour() ? "\033[1m" : "", printable(record.head).c_str(),
                view::takes_colour() ? "\033[0m" : "");
    for (const std::string_view group : kGroupOrder) print_group(record, group);
  }
}

// `statistic show cm`: brdmad's counters of connection managers' messages, and those of the programs' managers; with -d
// each program's too.
int show_connection_counters(Invocation& invocation) {
  while (!invocation.words.empty()) {
    if (!take_style_option(invocation.words, invocation.style))
      throw grammar::unexpected(invocation.words.peek(), "statistic", "show cm");
  }
  const auto answer = ask_daemon("statistics");
  std::vector<Record> records;
  if (answer) {
    const Json& connections = answer->at("connections");
    Record& all = records.emplace_back(Record{"cm", answer->at("management")});
    all.fields.update(connections.at("counters"));
    for (const Json& process : invocation.style.details == 0 ? Json::array() : connections.at("processes")) {
      Record& one = records.emplace_back(Record{"cm", {{"pid", process.at("pid")}, {"comm", process.at("comm")}}});
      one.fields.update(process.at("counters"));
    }
  }
  print_counters(records, invocation.style);
  return 0;
}

// `statistic show qp`: each queue pair's counters.
int show_queue_pair_counters(Invocation& invocation) {
  Target target;
  Words& words = invocation.words;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style) || take_target(words, target)) continue;
    throw grammar::unexpected(words.peek(), "statistic", "show qp");
  }
  invocation.style.lists = true;
  return show_rows({{"query", "queue_pair_statistics"}}, target, Json::object(), "link", kQueuePairColumns,
                   invocation.style);
}

Record record_of_link(const std::string& device, const OutputStyle& style) {
  Record record{"link " + device + "/" + std::to_string(kPort), {}};
  if (style.complete()) record.fields = {{"ifname", device}, {"port", kPort}};
  return record;
}

// Each device's counters; with -d then those of each process.
std::vector<Record> link_counters(const Json& statistics, const ShowFilter& filter, const OutputStyle& style) {
  std::vector<Record> records;
  for (const Json& device : statistics.at("devices")) {
    const std::string name = device.at("device");
    if (!filter.matches(name)) continue;
    Record& record = records.emplace_back(record_of_link(name, style));
    record.fields.update(device.at("counters"));
  }
  for (const Json& process : statistics.at("processes")) {
    const std::string name = process.at("device");
    if (style.details == 0 || !filter.matches(name) || !process.at("counters").is_object()) continue;
    Record& record = records.emplace_back(record_of_link(name, style));
    record.fields.update({{"pid", process.at("pid")}, {"comm", process.at("comm")}});
    record.fields.update(process.at("counters"));
  }
  return records;
}

int show_link_counters(Invocation& invocation) {
  const ShowFilter filter = parse_show(invocation, "statistic");
  if (!filter.device.empty()) require_device(filter.device);
  const auto answer = ask_daemon("statistics");
  std::vector<Record> records;
  if (answer) records = link_counters(*answer, filter, invocation.style);
  print_counters(records, invocation.style);
  return 0;
}

}  // namespace

// `statistic show [link NAME]`: each device's counters; with -d each process's too. `statistic show qp`: each queue
// pair's. `statistic show cm`: RDMA-CM's.
int statistic_object(Invocation& invocation) {
  if (takes_show_of(invocation, "cm")) return show_connection_counters(invocation);
  if (takes_show_of(invocation, "qp")) return show_queue_pair_counters(invocation);
  return show_link_counters(invocation);
}

}  // namespace brdma
