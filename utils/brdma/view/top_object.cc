// `brdma top`: queue pairs live. Each sample is three questions to brdmad; rates are differences between two samples.

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "grammar/help.h"
#include "io/daemon/daemon_client.h"
#include "io/shard/clock.h"
#include "management.h"
#include "view/listing.h"

namespace brdma {
namespace {

struct TopRequest {
  Target target;
  std::uint32_t interval_ms = 1000;
  std::uint32_t count = 0;  // 0: until interrupted
};

// One line of the table: a name of JSON, and the counter of `statistic show qp` whose rate it is.
struct RateOf {
  const char* key;
  const char* counter;
};
constexpr std::array kQueuePairRates{
    RateOf{"sent_pkts_per_second", "sent_pkts"},
    RateOf{"rcvd_pkts_per_second", "accepted_pkts"},
    RateOf{"retransmitted_per_second", "retransmitted_pkts"},
    RateOf{"lost_per_second", "gaps_promoted"},
    RateOf{"timeouts_per_second", "local_ack_timeout_err"},
};
constexpr std::array kLossRates{
    RateOf{"depth", "gaps_promoted_depth"},       RateOf{"age", "gaps_promoted_age"},
    RateOf{"stall", "gaps_promoted_stall"},       RateOf{"path", "gaps_promoted_path"},
    RateOf{"requested", "gaps_promoted_request"},
};
constexpr std::array kRetransmissionRates{
    RateOf{"ffm", "retransmitted_by_ffm"},     RateOf{"nak", "retransmitted_by_nak"},
    RateOf{"edn", "retransmitted_by_edn"},     RateOf{"ack", "retransmitted_by_ack"},
    RateOf{"probe", "retransmitted_by_probe"}, RateOf{"timeout", "retransmitted_by_timeout"},
    RateOf{"path", "retransmitted_by_path"},   RateOf{"expected", "retransmitted_expected"},
    RateOf{"wait", "retransmitted_by_wait"},   RateOf{"requested", "retransmitted_by_request"},
};
constexpr std::string_view kTopColumns =
    "ifname lqpn state mode peer sent_mbps sent_pkts_per_second? rcvd_pkts_per_second? retransmitted_per_second "
    "lost_per_second timeouts_per_second? srtt_us pid? comm";

struct Sample {
  Instant when;
  std::map<std::string, Json> queue_pairs;  // by device and number; `resource show qp` and `statistic show qp` together
  std::map<std::string, Json> devices;      // by name: counters
  int failed = 0;                           // programs without an answer
};

// Nothing where no brdmad runs: then there is nothing to show, and it may come later.
std::optional<Json> ask_quietly(Json question, const Target& target) {
  if (!target.device.empty()) question["device"] = target.device;
  if (target.qp) question["qp"] = *target.qp;
  const auto reply = io::query_daemon(question);
  if (reply.ok()) return std::optional<Json>(std::in_place, reply.value());
  if (reply.reason().error == ENOENT || reply.reason().error == EPIPE) return std::nullopt;
  throw std::runtime_error(reply.reason().message);
}

void add_queue_pairs(Sample& sample, const Json& question, const Target& target) {
  const auto reply = ask_quietly(question, target);
  if (!reply) return;
  for_each_answer(*reply, OutputStyle{}, sample.failed, [&sample](const ProcessAnswer& each) {
    const std::string device = each.answer.at("device");
    for (const Json& row : each.answer.at("rows")) {
      const std::string key = device + "/" + row.at("lqpn").dump();
      Json& kept = sample.queue_pairs.try_emplace(key, Json::object()).first->second;
      kept["ifname"] = device;
      add_members(kept, row);
      kept["pid"] = each.answer.at("pid");
      kept["comm"] = each.answer.at("comm");
    }
  });
}

Sample look_at(const Target& target) {
  Sample sample{io::monotonic_now(), {}, {}, 0};
  add_queue_pairs(sample, {{"query", "queue_pair_statistics"}}, target);
  add_queue_pairs(sample, {{"query", "resource"}, {"what", "qp"}}, target);
  const auto statistics = ask_quietly({{"query", "statistics"}}, {});
  for (const Json& device : statistics ? statistics->at("devices") : Json::array()) {
    const std::string name = device.at("device");
    if (target.device.empty() || name == target.device) sample.devices[name] = device.at("counters");
  }
  return sample;
}

double number_of(const Json& fields, const char* key) {
  const auto found = fields.find(key);
  return found != fields.end() && found->is_number() ? found->get<double>() : 0;
}

// Of a counter, a second; null where there is no earlier sample, or it began again.
Json rate(const Json& now, const Json* before, const char* counter, double seconds) {
  if (before == nullptr || seconds <= 0) return nullptr;
  const double grown = number_of(now, counter) - number_of(*before, counter);
  return grown < 0 ? Json(nullptr) : Json(static_cast<std::uint64_t>(std::llround(grown / seconds)));
}

const Json* find_in(const std::map<std::string, Json>& all, const std::string& key) {
  const auto found = all.find(key);
  return found == all.end() ? nullptr : &found->second;
}

Json queue_pair_row(const Json& now, const Json* before, double seconds) {
  Json row = Json::object();
  for (const char* key : {"ifname", "lqpn", "rqpn", "peer", "state", "mode"}) row[key] = view::member_of(now, key);
  const Json bytes = rate(now, before, "sent_bytes", seconds);
  row["sent_mbps"] = bytes.is_null() ? Json(nullptr) : Json(std::round(bytes.get<double>() * 8 / 1e5) / 10);
  for (const RateOf& each : kQueuePairRates) row[each.key] = rate(now, before, each.counter, seconds);
  for (const char* key : {"srtt_us", "base_rtt_us", "flight_bytes", "rate_mbps", "pid", "comm"}) {
    row[key] = view::member_of(now, key);
  }
  return row;
}

template <std::size_t N>
Json rates(const std::array<RateOf, N>& table, const Json& now, const Json* before, double seconds) {
  Json row = Json::object();
  for (const RateOf& each : table) row[each.key] = rate(now, before, each.counter, seconds);
  return row;
}

Json device_row(const std::string& name, const Json& now, const Json* before, double seconds) {
  return {{"ifname", name},
          {"sent_pkts_per_second", rate(now, before, "sent_pkts", seconds)},
          {"rcvd_pkts_per_second", rate(now, before, "rcvd_pkts", seconds)},
          {"lost_per_second", rates(kLossRates, now, before, seconds)},
          {"misjudged_per_second", rate(now, before, "misjudgement_corrections", seconds)},
          {"retransmitted_per_second", rates(kRetransmissionRates, now, before, seconds)}};
}

// {"queue_pairs":[...],"devices":[...]}: the busiest queue pair first.
Json difference(const Sample& now, const Sample& before) {
  const double seconds = static_cast<double>((now.when - before.when).ns()) / 1e9;
  std::vector<Json> rows;
  for (const auto& [key, fields] : now.queue_pairs) {
    rows.push_back(queue_pair_row(fields, find_in(before.queue_pairs, key), seconds));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return number_of(a, "sent_pkts_per_second") + number_of(a, "rcvd_pkts_per_second") >
           number_of(b, "sent_pkts_per_second") + number_of(b, "rcvd_pkts_per_second");
  });
  Json devices = Json::array();
  for (const auto& [name, counters] : now.devices) {
    devices.push_back(device_row(name, counters, find_in(before.devices, name), seconds));
  }
  return {{"interval_ms", std::llround(seconds * 1000)}, {"queue_pairs", rows}, {"devices", devices}};
}

// "depth 12  age 3": what is not zero; "none".
std::string causes(const Json& rates_by_cause) {
  std::string text;
  for (const auto& [cause, value] : rates_by_cause.items()) {
    if (value.is_number() && value != 0) text += (text.empty() ? "" : "  ") + cause + " " + value.dump();
  }
  return text.empty() ? "none" : text;
}

void print_devices(const Json& devices) {
  for (const Json& device : devices) {
    const std::string name = printable(device.at("ifname").get<std::string>());
    std::printf("\n%s: gaps judged lost a second, by cause: %s; misjudged: %s\n", name.c_str(),
                causes(device.at("lost_per_second")).c_str(), device.at("misjudged_per_second").dump().c_str());
    std::printf("%*s  packets retransmitted a second, by cause: %s\n", static_cast<int>(name.size()), "",
                causes(device.at("retransmitted_per_second")).c_str());
  }
}

void print_sample(const Json& sample, const OutputStyle& style) {
  std::vector<Record> records;
  std::size_t left_out = 0;
  const std::size_t room = view::terminal_height() > 4 + 3 * sample.at("devices").size()
                               ? view::terminal_height() - 4 - 3 * sample.at("devices").size()
                               : 1;
  for (const Json& row : sample.at("queue_pairs")) {
    if (style.terminal && records.size() >= room) {
      ++left_out;
    } else {
      records.push_back({"", row});
    }
  }
  if (!style.columns.empty()) {
    view::require_keys(records, style.columns);
    view::print_table_of(records, style.columns);
  } else if (style.terminal) {
    view::print_table_that_fits(records, kTopColumns);
  } else {
    view::print_whole_table(records, kTopColumns);
  }
  if (left_out > 0) std::printf("and %zu more\n", left_out);
  print_devices(sample.at("devices"));
}

std::uint32_t top_number(const std::string& option, const std::string& text, std::uint32_t min, std::uint32_t max) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < min || number > max) {
    throw UsageError(option + " '" + text + "': expected a number, " + std::to_string(min) + " to " +
                     std::to_string(max));
  }
  return number;
}

TopRequest take_top_request(Invocation& invocation) {
  Words& words = invocation.words;
  TopRequest request;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style) || take_target(words, request.target)) continue;
    const std::string word = words.take();
    if (word == "--interval") {
      request.interval_ms = top_number(word, words.take_value(word), 10, 3'600'000);
    } else if (word == "--count") {
      request.count = top_number(word, words.take_value(word), 1, 1'000'000);
    } else if (word == "--once") {
      request.count = 1;
    } else if (word.starts_with("-")) {
      throw grammar::unknown_option(word, "top");
    } else {
      throw grammar::unexpected(word, "top");
    }
  }
  return request;
}

}  // namespace

int top_object(Invocation& invocation) {
  const TopRequest request = take_top_request(invocation);
  const OutputStyle& style = invocation.style;
  if (!request.target.device.empty()) require_device(request.target.device);
  const bool screen = style.terminal && !style.json && request.count != 1;
  Sample before = look_at(request.target);
  for (std::uint32_t shown = 0; request.count == 0 || shown < request.count; ++shown) {
    (void)poll(nullptr, 0, static_cast<int>(request.interval_ms));
    Sample now = look_at(request.target);
    const Json sample = difference(now, before);
    if (style.json) {
      print_json(sample, style);
    } else {
      if (screen) std::fputs("\033[H\033[J", stdout);
      if (!screen && shown > 0) std::printf("\n");
      print_sample(sample, style);
    }
    flush_output();
    before = std::move(now);
  }
  return before.failed == 0 ? 0 : 1;
}

}  // namespace brdma
