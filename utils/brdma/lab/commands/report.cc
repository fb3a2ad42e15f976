#include "lab/commands/report.h"

#include <unistd.h>

#include <array>
#include <string_view>

#include "io/daemon/daemon_client.h"
#include "lab/processes/host_process.h"
#include "trace/counters.h"

namespace brdma::lab {
namespace {

constexpr std::string_view name(Counter counter) { return kCounterNames[static_cast<std::size_t>(counter)]; }
constexpr std::string_view name(DropReason reason) { return kDropReasonNames[static_cast<std::size_t>(reason)]; }

// A row: its text, its counter, and whether it is shown even if all hosts have 0.
struct Row {
  std::string_view label;
  std::string_view counter;
  bool always;
};

constexpr std::array kNetworkRows{
    Row{"packets offered", "offered", true},
    Row{"  not RoCE, passed by", "exempt", false},
    Row{"  lost", "lost", true},
    Row{"  lost in bursts", "burst_lost", false},
    Row{"  reordered", "reordered", false},
    Row{"  duplicated", "duplicated", false},
    Row{"  corrupted", "corrupted", false},
    Row{"  dropped, queue full", "queue_dropped", false},
    Row{"  dropped, buffer full", "buffer_dropped", false},
    Row{"  dropped at random", "random_dropped", false},
    Row{"  found the queue long (ECN)", "marked", false},
    Row{"packets delivered", "forwarded", true},
};

constexpr std::array kRecoveryRows{
    Row{"data packets sent", name(Counter::kSentDataPackets), true},
    Row{"packets received", name(Counter::kReceivedPackets), true},
    Row{"gaps seen", name(Counter::kGapsSeen), true},
    Row{"  closed by themselves", name(Counter::kGapsClosed), true},
    Row{"  closed by a retransmission", name(Counter::kGapsRecovered), false},
    Row{"  judged lost: depth", name(Counter::kGapsPromotedDepth), true},
    Row{"  judged lost: age", name(Counter::kGapsPromotedAge), true},
    Row{"  judged lost: stall", name(Counter::kGapsPromotedStall), true},
    Row{"  judged lost: same path", name(Counter::kGapsPromotedPath), false},
    Row{"  judged lost: by hand", name(Counter::kGapsPromotedRequest), false},
    Row{"  waited for a longer path", name(Counter::kCrossPathWaits), false},
    Row{"  misjudged (came after all)", name(Counter::kMisjudgementCorrections), true},
    Row{"fast feedback sent", name(Counter::kFfmSent), true},
    Row{"fast feedback received", name(Counter::kFfmReceived), true},
    Row{"  gaps in it already mended", name(Counter::kFfmSuppressed), false},
    Row{"retransmitted for the switch", name(Counter::kRetransmittedEdn), false},
    Row{"retransmitted for feedback", name(Counter::kRetransmittedFfm), true},
    Row{"retransmitted for NAK", name(Counter::kRetransmittedNak), false},
    Row{"retransmitted for ack's holes", name(Counter::kRetransmittedAck), false},
    Row{"retransmitted as expected", name(Counter::kRetransmittedExpected), false},
    Row{"retransmitted after T + delta", name(Counter::kRetransmittedWait), false},
    Row{"retransmitted, path silent", name(Counter::kRetransmittedPath), false},
    Row{"retransmitted by hand", name(Counter::kRetransmittedRequest), false},
    Row{"retransmitted as probe", name(Counter::kRetransmittedProbe), true},
    Row{"retransmitted on timeout", name(Counter::kRetransmittedTimeout), true},
    Row{"reads issued again", name(Counter::kReadsReissued), false},
    Row{"read requests sent twice", name(Counter::kReadsCopied), false},
    Row{"acknowledgement timeouts", name(Counter::kLocalAckTimeout), false},
    Row{"duplicates received", name(Counter::kDuplicateRequest), true},
    Row{"placed early", name(Counter::kPlacedEarly), true},
    Row{"held until their turn", name(Counter::kHeldPackets), false},
    Row{"waits for receiver's credit", name(Counter::kCreditStalls), false},
    Row{"bad checksum (ICRC)", name(DropReason::kBadIcrc), false},
    Row{"socket buffer overruns", name(Counter::kSocketOverflow), false},
    Row{"gave up: retries exceeded", name(Counter::kRetryExceeded), false},
    Row{"operations sent", name(Counter::kOperationsSent), false},
    Row{"  acknowledged whole", name(Counter::kOperationsDone), false},
    Row{"operations registered", name(Counter::kOperationsRegistered), false},
    Row{"  all packets here", name(Counter::kOperationsComplete), false},
    Row{"  duplicates by their mask", name(Counter::kOperationDuplicates), false},
    Row{"escaped (before their start)", name(Counter::kEscapedPackets), false},
    Row{"  start came in time", name(Counter::kEscapeReleased), false},
    Row{"  start did not", name(Counter::kEscapeExpired), false},
    Row{"large transfers received", name(Counter::kTransfersComplete), false},
    Row{"paths set aside as silent", name(Counter::kPathSilent), false},
    Row{"  and taken back", name(Counter::kPathReturned), false},
    Row{"queue pairs in bitmap mode", name(Counter::kBitmapQps), true},
};

std::uint64_t count(const Json& counters, std::string_view name) {
  const auto found = counters.find(std::string{name});
  return found != counters.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

template <class Rows>
void add_rows(std::vector<std::vector<std::string>>& table, const Rows& rows, const std::vector<Json>& columns) {
  for (const Row& row : rows) {
    std::vector<std::string> cells{std::string{row.label}};
    bool any = row.always;
    for (const Json& column : columns) {
      const std::uint64_t value = count(column, row.counter);
      any = any || value != 0;
      cells.push_back(grouped(value));
    }
    if (any) table.push_back(std::move(cells));
  }
}

// For each path, arrivals and losses by kind; nothing if there is one path.
void add_path_rows(std::vector<std::vector<std::string>>& table, const Json& hosts) {
  const std::size_t paths = hosts.at(0).at("paths").size();
  for (std::size_t path = 0; paths > 1 && path < paths; ++path) {
    std::vector<std::string> offered{"path " + std::to_string(path) + ", packets offered"}, lost{"  lost"};
    std::uint64_t all_offered = 0, all_lost = 0;
    for (const Json& host : hosts) {
      const Json& counters = host.at("paths").at(path);
      const std::uint64_t came = count(counters, "offered");
      const std::uint64_t went = count(counters, "lost") + count(counters, "burst_lost");
      offered.push_back(grouped(came));
      lost.push_back(grouped(went));
      all_offered += came;
      all_lost += went;
    }
    offered.push_back(grouped(all_offered));
    lost.push_back(grouped(all_lost));
    table.push_back(std::move(offered));
    table.push_back(std::move(lost));
  }
}

// With several switches their sums.
void print_processing(const Json& show) {
  if (show.at("network").at("switch-rate") == "off") return;
  const Json& processing = show.at("processing");
  std::printf("processing: %s packets, %s waited at most, %s dropped\n",
              grouped(count(processing, "processed")).c_str(), grouped(count(processing, "longest")).c_str(),
              grouped(count(processing, "dropped")).c_str());
}

// Each host's queue, and each class if there are several.
void print_queue_table(const Json& show) {
  const Json& hosts = show.at("hosts");
  std::vector<std::vector<std::string>> table{{"queues, bytes:"},
                                              {
                                                  "",
                                              }};
  for (const Json& host : hosts) table[1].push_back("to " + host.at("host").get<std::string>());
  const auto add = [&](const std::string& label, const auto& value_of) {
    std::vector<std::string> row{label};
    for (const Json& host : hosts) row.push_back(grouped(value_of(host.at("queue"))));
    table.push_back(std::move(row));
  };
  add("now", [](const Json& queue) { return count(queue, "bytes"); });
  add("longest so far", [](const Json& queue) { return count(queue, "longest"); });
  const std::size_t classes = hosts.at(0).at("queue").at("classes").size();
  for (std::size_t i = 0; classes > 1 && i < classes; ++i) {
    const auto of_class = [i](const char* name) {
      return [i, name](const Json& queue) { return count(queue.at("classes").at(i), name); };
    };
    add("class " + std::to_string(i) + ", packets", of_class("packets"));
    add("  dropped", of_class("dropped"));
    add("  longest so far", of_class("longest"));
  }
  print_table(table);
  if (show.at("network").at("buffer") != "off") {
    std::printf("shared buffer: %s bytes used, %s at most\n", grouped(count(show.at("buffer"), "used")).c_str(),
                grouped(count(show.at("buffer"), "most")).c_str());
  }
}

// Notifications of the switch to senders; nothing if there are none.
void print_notifications(const Json& show) {
  const Json& ecn = show.at("ecn");
  const Json& edn = show.at("edn");
  std::vector<std::vector<std::string>> table{{"reported to senders:"}};
  const auto add = [&table](const char* label, const Json& from, const char* name) {
    table.push_back({label, grouped(count(from, name))});
  };
  if (show.at("network").at("ecn") != "off") {
    add("marks set (ECN)", ecn, "set");
    add("not set: sender knows no ECN", ecn, "not_able");
  }
  if (show.at("network").at("ecn-to-rtt") != "off") {
    add("marks taken over as round trip", ecn, "taken_over");
    add("  flows", ecn.at("translated"), "flows");
    add("  acknowledgements passed", ecn.at("translated"), "returning");
    add("  rewritten", ecn.at("translated"), "rewritten");
    add("  marks of no such flow", ecn.at("translated"), "untranslated");
  }
  if (show.at("network").at("edn") != "off") {
    add("drops of packets that are resent", edn, "dropped");
    add("  merged with others", edn, "merged");
    add("notifications sent", edn, "sent");
    add("  bytes", edn, "sent_bytes");
    add("  too many", edn, "limited");
    add("  without a form", edn, "untold");
    add("flows in the table", edn, "flows");
    add("  at most", edn, "flows_most");
  }
  if (table.size() > 1) print_table(table);
}

}  // namespace

Json host_counters(const std::string& lab, const std::string& host) {
  const std::string text = collect_on_host(open_host(lab, host), [](int fd) {
    const auto answer = io::query_daemon({{"query", "statistics"}});
    const std::string reply = answer.ok() ? answer.value().dump() : std::string{};
    (void)!write(fd, reply.data(), reply.size());
  });
  const Json answer = Json::parse(text, nullptr, false);
  Json sum = Json::object();
  if (!answer.is_object() || !answer.contains("devices")) return sum;
  for (const Json& device : answer["devices"]) {
    for (const auto& [name, value] : device.at("counters").items()) {
      sum[name] = sum.value(name, std::uint64_t{0}) + value.get<std::uint64_t>();
    }
  }
  return sum;
}

void print_network_table(const Json& show) {
  std::string options;
  for (const auto& [name, value] : show.at("network").items()) {
    const std::string text = value.get<std::string>();
    const bool plain = (name == "paths" || name == "classes") && text == "1";
    if (text != "0" && (text != "off" || name == "uplink") && text != "same" && !plain)
      options += " " + name + " " + text;
  }
  std::vector<std::vector<std::string>> table{{"network:" + options}};
  std::vector<std::string> head{""};
  std::vector<Json> columns;
  for (const Json& host : show.at("hosts")) {
    head.push_back("to " + host.at("host").get<std::string>());
    columns.push_back(host.at("to_host"));
    columns.back()["queue_dropped"] = count(host.at("to_host"), "queue_dropped");
  }
  head.push_back("total");
  columns.push_back(show.at("total"));
  table.push_back(std::move(head));
  add_rows(table, kNetworkRows, columns);
  add_path_rows(table, show.at("hosts"));
  print_table(table);
  if (show.at("network").at("rate") != "off") print_queue_table(show);
  print_processing(show);
  print_notifications(show);
  std::uint64_t trouble = 0;
  for (const auto& [name, value] : show.at("switch_trouble").items()) trouble += value.get<std::uint64_t>();
  if (trouble != 0) {
    std::printf("note: beside these, the switch itself lost %s packets (%s): this machine was too slow for it\n",
                grouped(trouble).c_str(), show.at("switch_trouble").dump().c_str());
  }
}

void print_recovery_table(const std::vector<HostReport>& hosts) {
  std::vector<std::vector<std::string>> table{{"recovery:"}};
  std::vector<std::string> head{""};
  std::vector<Json> columns;
  for (const HostReport& report : hosts) {
    head.push_back(report.host);
    columns.push_back(report.counters);
  }
  table.push_back(std::move(head));
  add_rows(table, kRecoveryRows, columns);
  print_table(table);
}

}  // namespace brdma::lab
