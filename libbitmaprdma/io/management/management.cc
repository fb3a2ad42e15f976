#include "io/management/management.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "control/json_text.h"
#include "control/report.h"
#include "io/management/management_answers.h"
#include "io/shard/clock.h"

namespace brdma::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPairsPerLock = 32;
constexpr std::size_t kIcmpMax = 600;  // longest message from brdmad

std::optional<std::size_t> read_hexadecimal(std::string_view text, MutableBytes out) {
  if (text.size() % 2 != 0 || text.size() / 2 > out.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    std::uint8_t value = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (error != std::errc{} || end != text.data() + i + 2) return std::nullopt;
    out[i / 2] = std::byte{value};
  }
  return text.size() / 2;
}

struct Changes final : RecoveryEditor {
  explicit Changes(const Json& given) : changes(given) {}
  void edit(RecoveryConfig& config, bool made) const override { control::apply_changes(changes, config, made); }
  void edit_transfers(TransferConfig& config) const override { control::apply_changes(changes, config); }
  const Json& changes;
};

}  // namespace

std::string Management::answer(std::string_view line) {
  const Json request = control::parse_json(line);
  if (!request.is_object()) return {};
  const auto id = request.find("id");
  const auto what = request.find("do");
  if (what != request.end() && *what == "icmp") {
    take_icmp(request);
    return {};
  }
  if (what != request.end() && *what == "lower") {
    take_control_packet(request);
    return {};
  }
  if (id == request.end() || what == request.end() || !what->is_string()) return {};
  Json reply = reply_to(what->get_ref<const std::string&>(), request);
  reply["id"] = *id;
  return reply.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

Json Management::reply_to(const std::string& question, const Json& request) {
  struct Reply {
    std::string_view question;
    Json (Management::*reply)(const Json& request);
  };
  static constexpr std::array kReplies{
      Reply{"recovery", &Management::recovery},
      Reply{"set", &Management::set},
      Reply{"queue_pairs", &Management::queue_pairs},
      Reply{"statistics", &Management::statistics},
      Reply{"gaps", &Management::gaps},
      Reply{"duplicates", &Management::duplicates},
      Reply{"retransmit", &Management::retransmit},
      Reply{"objects", &Management::objects},
      Reply{"completion_queues", &Management::completion_queues},
      Reply{"memory_regions", &Management::memory_regions},
      Reply{"protection_domains", &Management::protection_domains},
      Reply{"shared_receive_queues", &Management::shared_receive_queues},
      Reply{"link_reports", &Management::link_reports},
      Reply{"managed", &Management::managed},
      Reply{"manage", &Management::manage},
      Reply{"release", &Management::release},
  };
  const auto known = std::ranges::find(kReplies, question, &Reply::question);
  if (known == kReplies.end()) return error_json(EINVAL, "this library knows no '" + question + "'");
  return (this->*known->reply)(request);
}

// No answer is expected; retransmissions leave at once.
void Management::take_icmp(const Json& news) {
  const auto messages = news.find("messages");
  if (messages == news.end() || !messages->is_array()) return;
  bool wake = false;
  {
    const std::lock_guard held{shard_.lock()};
    const Instant now = monotonic_now();
    for (const Json& each : *messages) {
      std::array<std::byte, kIcmpMax> bytes;
      const auto size = each.is_string() ? read_hexadecimal(each.get_ref<const std::string&>(), bytes) : std::nullopt;
      if (size) shard_.engine().handle_icmp(ConstBytes{bytes}.first(*size), now);
    }
    shard_.settle(now);
    wake = shard_.progress_owner().take_wake_request();
  }
  if (wake) shard_.progress_owner().wake();
}

Json Management::recovery(const Json& request) {
  const auto qpn = queue_pair_of(request);
  if (!qpn) {
    const std::lock_guard held{shard_.lock()};
    Json settings = control::recovery_json(shard_.engine().recovery());
    settings.update(control::transfer_json(shard_.engine().transfer()));
    return {{"settings", std::move(settings)}};
  }
  std::optional<QueuePairReport> report;
  {
    const std::lock_guard held{shard_.lock()};
    report = shard_.engine().report(*qpn, monotonic_now());
  }
  if (!report) return no_such_queue_pair(*qpn);
  const Json all = control::queue_pair_json(*report);
  Json in_force = Json::object();
  for (const char* key :
       {"mode", "depth_limit", "age_limit_us", "stall_limit_us", "response_depth_limit", "response_age_limit_us",
        "response_stall_limit_us", "receive_bitmap", "congestion", "congestion_bytes", "rate_mbps", "answer_rate_mbps"})
    in_force[key] = all[key];
  for (const char* key : {"receive_start_psn", "send_start_psn"})
    if (shows_keys(request)) in_force[key] = all[key];
  return {{"lqpn", *qpn},
          {"own_settings", report->own_recovery},
          {"settings", control::recovery_json(report->recovery)},
          {"in_force", std::move(in_force)}};
}

Json Management::set(const Json& request) {
  const auto changes = request.find("settings");
  if (changes == request.end()) return error_json(EINVAL, "no setting is named");
  const auto qpn = queue_pair_of(request);
  if (const std::string wrong = control::check_changes(*changes, qpn.has_value()); !wrong.empty())
    return error_json(EINVAL, wrong);
  std::size_t reached = 1;
  bool wake = false;
  Status status;
  {
    const std::lock_guard held{shard_.lock()};
    const Instant now = monotonic_now();
    status = shard_.engine().change_recovery(qpn, Changes{*changes}, now);
    if (!qpn) reached = shard_.engine().queue_pairs();
    shard_.settle(now);  // deadlines may have changed
    wake = shard_.progress_owner().take_wake_request();
  }
  if (wake) shard_.progress_owner().wake();
  if (!status.ok()) return no_such_queue_pair(*qpn);
  return {{"qp", reached}, {"applies", control::reach_json(*changes)}};
}

std::vector<std::uint32_t> Management::numbers_of(const Json& request) {
  if (const auto only = queue_pair_of(request)) return {*only};
  const std::lock_guard held{shard_.lock()};
  return shard_.engine().queue_pair_numbers();
}

void Management::read_reports(const std::vector<std::uint32_t>& numbers, std::size_t& at,
                              std::vector<QueuePairReport>& reports) {
  reports.clear();
  const std::lock_guard held{shard_.lock()};
  for (std::size_t i = 0; i < kPairsPerLock && at < numbers.size(); ++i, ++at) {
    if (const auto report = shard_.engine().report(numbers[at], monotonic_now())) reports.push_back(*report);
  }
}

Json Management::queue_pair_rows(const Json& request, Json (*row)(const QueuePairReport&)) {
  const std::vector<std::uint32_t> numbers = numbers_of(request);
  const bool keys = shows_keys(request);
  Rows rows;
  std::vector<QueuePairReport> reports;
  const char* const receives_by = shard_.intake().xdp() != nullptr ? "xdp" : "udp";
  const char* const transmits_by = this->transmits_by();
  bool room = true;
  for (std::size_t at = 0; at < numbers.size() && room;) {
    read_reports(numbers, at, reports);
    for (std::size_t i = 0; i < reports.size() && room; ++i) {
      Json one = row(reports[i]);
      if (!keys) hide_keys(one);
      if (row == &control::queue_pair_json) one.update({{"datapath", receives_by}, {"transmits_by", transmits_by}});
      room = rows.add(std::move(one));
    }
  }
  return std::move(rows).answer();
}

Json Management::queue_pairs(const Json& request) { return queue_pair_rows(request, &control::queue_pair_json); }

Json Management::statistics(const Json& request) {
  return queue_pair_rows(request, &control::queue_pair_statistics_json);
}

Json Management::objects(const Json& /*request*/) {
  std::vector<std::uint32_t> numbers;
  std::size_t queues = 0, regions = 0, domains = 0, shared_queues = 0, state_bytes = 0;
  {
    const std::lock_guard held{shard_.lock()};
    numbers = shard_.engine().queue_pair_numbers();
    queues = shard_.engine().completion_queue_reports().size();
    regions = this->regions().size();
    domains = tells_memory_ ? shard_.engine().protection_domains().size() : 0;
    shared_queues = shard_.engine().shared_receive_queue_reports().size();
  }
  for (std::size_t at = 0; at < numbers.size();) {
    const std::lock_guard held{shard_.lock()};
    for (std::size_t i = 0; i < kPairsPerLock && at < numbers.size(); ++i, ++at) {
      if (const auto report = shard_.engine().report(numbers[at])) state_bytes += report->state_bytes;
    }
  }
  return {{"qp", numbers.size()},  {"cq", queues},         {"mr", regions},
          {"pd", domains},         {"srq", shared_queues}, {"state_bytes", state_bytes},
          {"datapath", datapath()}};
}

Json Management::datapath() const {
  const XdpSocket* const xdp = shard_.intake().xdp();
  Json out;
  if (xdp == nullptr) {
    out = {{"receive", "udp"}, {"reason", shard_.intake().why_udp()}};
  } else {
    constexpr auto& kModes = control::kXdpModeNames;
    out = {{"receive", "xdp"},
           {"mode", kModes[static_cast<std::size_t>(xdp->mode()) % kModes.size()]},
           {"queue", xdp->queue()}};
  }
  out["transmit"] = transmits_by();
  const XdpOutlet* const outlet = shard_.sender().outlet().xdp();
  if (outlet == nullptr) {
    out["transmit_reason"] = shard_.sender().outlet().why_udp();
    return out;
  }
  {
    const std::lock_guard held{shard_.lock()};
    out["sent_pkts"] = outlet->transmit.sent();
    out["unresolved_pkts"] = outlet->unresolved;
  }
  if (outlet->transmit.dead() != 0) {
    out["transmit_reason"] = std::string{"the interface is gone: "} + std::strerror(outlet->transmit.dead());
  }
  return out;
}

const char* Management::transmits_by() const {
  const XdpOutlet* const xdp = shard_.sender().outlet().xdp();
  return xdp == nullptr || xdp->transmit.dead() != 0 ? "udp" : xdp->all ? "xdp" : "xdp, small packets";
}

Json Management::completion_queues(const Json& /*request*/) {
  std::vector<CompletionQueueReport> reports;
  {
    const std::lock_guard held{shard_.lock()};
    reports = shard_.engine().completion_queue_reports();
  }
  const bool cut = reports.size() > kRowsMax;
  if (cut) reports.resize(kRowsMax);
  Json rows = Json::array();
  for (const auto& report : reports) rows.push_back(control::completion_queue_json(report));
  return {{"rows", std::move(rows)}, {"cut", cut}};
}

std::vector<MemoryRegion> Management::regions() {
  return tells_memory_ ? shard_.engine().memory_regions() : std::vector<MemoryRegion>{};
}

Json Management::memory_regions(const Json& request) {
  const bool keys = shows_keys(request);
  Json rows = Json::array();
  bool cut = false;
  std::vector<MemoryRegion> regions;
  {
    const std::lock_guard held{shard_.lock()};
    regions = this->regions();
    cut = regions.size() > kRowsMax;
    if (cut) regions.resize(kRowsMax);
    for (const auto& region : regions) {
      rows.push_back(control::memory_region_json(region));  // reads its domain
      if (!keys) hide_keys(rows.back());
    }
  }
  return {{"rows", std::move(rows)}, {"cut", cut}};
}

Json Management::protection_domains(const Json& /*request*/) {
  std::vector<ProtectionDomain> domains;
  if (tells_memory_) {
    const std::lock_guard held{shard_.lock()};
    domains = shard_.engine().protection_domains();
  }
  Rows rows;
  for (const ProtectionDomain& domain : domains) {
    if (!rows.add({{"pdn", domain.number}, {"users", domain.users}})) break;
  }
  return std::move(rows).answer();
}

Json Management::shared_receive_queues(const Json& /*request*/) {
  std::vector<SharedReceiveQueueReport> reports;
  {
    const std::lock_guard held{shard_.lock()};
    reports = shard_.engine().shared_receive_queue_reports();
  }
  Rows rows;
  for (const SharedReceiveQueueReport& report : reports) {
    if (!rows.add({{"srqn", report.number}, {"pdn", report.pd}, {"lqpn", report.queue_pairs}})) break;
  }
  return std::move(rows).answer();
}

}  // namespace brdma::io
