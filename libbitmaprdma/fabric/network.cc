#include "fabric/network.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fabric/marking_text.h"
#include "fabric/quantity.h"
#include "fabric/switch/traffic_class_text.h"

namespace brdma::fabric {
namespace {

constexpr std::uint64_t kAlphaMax = 64'000;
constexpr std::uint64_t kJitterNsMax = 1'000'000'000;
constexpr std::uint64_t kDelayNsMax = 10'000'000'000;
constexpr std::uint64_t kRateBpsMin = 8'000;
constexpr std::uint64_t kRateBpsMax = 400'000'000'000;
constexpr std::uint64_t kPacketRateMin = 1'000;
constexpr std::uint64_t kPacketRateMax = 16'000'000'000;
constexpr std::uint64_t kQueueBytesMin = 1'500;
constexpr std::uint64_t kQueueBytesMax = 1u << 30;

using Error = std::optional<std::string>;
Error wrong(std::string_view name, std::string_view value, std::string_view expected) {
  return std::string{name}.append(" '").append(value).append("': expected ").append(expected);
}

constexpr std::string_view kChanceForm = "a chance such as 1%, 0.05%, 20ppm or 0 (at most 100%)";
constexpr std::string_view kTimeForm = "a time such as 50us, 1.5ms, 200ns or 0";

Error set_chance(std::uint32_t& field, std::string_view name, std::string_view value) {
  const auto ppm = parse_quantity(value, kChanceUnits);
  if (!ppm || *ppm > 1'000'000) return wrong(name, value, kChanceForm);
  field = static_cast<std::uint32_t>(*ppm);
  return {};
}
Error set_time(Duration& field, std::uint64_t ns_max, std::string_view name, std::string_view value) {
  const auto ns = parse_quantity(value, kTimeUnits);
  if (!ns || *ns > ns_max) {
    return wrong(name, value, std::string{kTimeForm} + ", at most " + print_quantity(ns_max, kTimeUnits));
  }
  field = Duration::from_ns(static_cast<std::int64_t>(*ns));
  return {};
}
// "CHANCE" or "CHANCE,COUNT"
Error set_chance_and_count(std::uint32_t& chance, std::uint32_t& count, std::uint32_t count_max, std::string_view name,
                           std::string_view value) {
  const std::size_t comma = value.find(',');
  std::uint32_t new_chance = 0;
  if (auto error = set_chance(new_chance, name, value.substr(0, comma))) return error;
  if (comma != std::string_view::npos) {
    const auto new_count = parse_quantity(value.substr(comma + 1), std::span{kSizeUnits}.first(1));
    if (!new_count || *new_count == 0 || *new_count > count_max) {
      return wrong(name, value, "a number of packets, 1 to " + std::to_string(count_max) + ", after the comma");
    }
    count = static_cast<std::uint32_t>(*new_count);
  }
  chance = new_chance;
  return {};
}
std::string print_chance_and_count(std::uint32_t chance, std::uint32_t count) {
  return chance == 0 ? "0" : print_chance(chance) + "," + std::to_string(count);
}

Error set_rate(std::optional<Bandwidth>& rate, std::string_view name, std::string_view value,
               std::string_view or_what = "or off") {
  if (value == "off" || value == "0") {
    rate.reset();
    return {};
  }
  const auto bps = parse_quantity(value, kRateUnits);
  if (!bps || *bps < kRateBpsMin || *bps > kRateBpsMax) {
    return wrong(name, value,
                 std::string{"a rate such as 10gbit, 2.5gbit or 100mbit (8kbit to 400gbit), "}.append(or_what));
  }
  rate = Bandwidth::from_bps(*bps);
  return {};
}
std::string print_rate(const std::optional<Bandwidth>& rate) {
  return rate ? print_quantity(rate->bps(), kRateUnits) : "off";
}
Error set_switch_rate(std::optional<std::uint64_t>& rate, std::string_view value) {
  if (value == "off" || value == "0") {
    rate.reset();
    return {};
  }
  const auto packets = parse_quantity(value, kPacketRateUnits);
  if (!packets || *packets < kPacketRateMin || *packets > kPacketRateMax) {
    return wrong("switch-rate", value, "packets a second such as 2mpps or 500kpps (1kpps to 16gpps), or off");
  }
  rate = *packets;
  return {};
}
Error set_uplink(UplinkConfig& uplink, std::string_view value) {
  UplinkConfig wanted{.same = value == "same"};
  if (!wanted.same) {
    if (auto error = set_rate(wanted.rate, "uplink", value, "off or same")) return error;
  }
  uplink = wanted;
  return {};
}
Error set_queue(LinkConfig& link, std::string_view value) {
  const auto bytes = parse_quantity(value, kSizeUnits);
  if (!bytes || *bytes < kQueueBytesMin || *bytes > kQueueBytesMax) {
    return wrong("queue", value, "a size such as 256kb, 1mb or 65536 (1500 to 1024mb)");
  }
  link.queue_bytes = *bytes;
  return {};
}
// A curve of fabric/marking_text.h, or "off".
Error set_curve(std::optional<MarkingConfig>& curve, std::string_view name, std::string_view value) {
  if (value == "off" || value == "0") {
    curve.reset();
    return {};
  }
  const auto wanted = parse_marking(value);
  if (!wanted) {
    return wrong(name, value,
                 "off, or two queue lengths (at most 1024mb), delays (10s) or parts of the buffer, and a chance: "
                 "20kb,80kb,10% or 50us,200us,10% or 40%,80%,10%");
  }
  curve = wanted;
  return {};
}
std::string print_curve(const std::optional<MarkingConfig>& curve) { return curve ? print_marking(*curve) : "off"; }

// "SIZE", "SIZE,ALPHA" or "off"
Error set_buffer(SharedBufferConfig& buffer, std::string_view value) {
  if (value == "off" || value == "0") {
    buffer = {};
    return {};
  }
  const std::size_t comma = value.find(',');
  const auto bytes = parse_quantity(value.substr(0, comma), kSizeUnits);
  std::optional<std::uint64_t> alpha = SharedBufferConfig{}.alpha_per_mille;
  if (comma != std::string_view::npos) alpha = parse_quantity(value.substr(comma + 1), kRatioUnits);
  if (!bytes || *bytes < kQueueBytesMin || *bytes > kQueueBytesMax || !alpha || *alpha == 0 || *alpha > kAlphaMax) {
    return wrong(
        "buffer", value,
        "a size (1500 to 1024mb), and behind a comma how much of what is free a queue may take (0.001 to 64): 2mb,0.5");
  }
  buffer = {*bytes, static_cast<std::uint32_t>(*alpha)};
  return {};
}
std::string print_buffer(const SharedBufferConfig& buffer) {
  if (buffer.bytes == 0) return "off";
  std::string fraction = std::to_string(1000 + buffer.alpha_per_mille % 1000).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return print_quantity(buffer.bytes, kSizeUnits) + "," + std::to_string(buffer.alpha_per_mille / 1000) +
         (fraction.empty() ? "" : "." + fraction);
}

Error set_paths(std::uint32_t& paths, std::string_view value) {
  const auto number = parse_quantity(value, std::span{kSizeUnits}.first(1));
  if (!number || *number == 0 || *number > kLinkPathsMax) {
    return wrong("paths", value, "a number, 1 to " + std::to_string(kLinkPathsMax));
  }
  paths = static_cast<std::uint32_t>(*number);
  return {};
}
// "CHANCE" for the first path, and after commas for those that follow; a path not named loses nothing of its own.
Error set_path_loss(LinkConfig& link, std::string_view name, std::string_view value) {
  std::array<std::uint32_t, kLinkPathsMax> chances{};
  for (std::size_t path = 0;; ++path) {
    const std::size_t comma = value.find(',');
    if (path == kLinkPathsMax) return wrong(name, value, "chances of at most " + std::to_string(path) + " paths");
    if (auto error = set_chance(chances[path], name, value.substr(0, comma))) return error;
    if (comma == std::string_view::npos) break;
    value.remove_prefix(comma + 1);
  }
  link.path_loss_ppm = chances;
  return {};
}
std::string print_path_loss(const LinkConfig& link) {
  std::size_t count = kLinkPathsMax;
  while (count > 1 && link.path_loss_ppm[count - 1] == 0) --count;
  std::string text = print_chance(link.path_loss_ppm[0]);
  for (std::size_t path = 1; path < count; ++path) text += "," + print_chance(link.path_loss_ppm[path]);
  return text;
}
Error set_mtu(std::uint32_t& mtu, std::string_view value) {
  for (const std::uint32_t allowed : {1024u, 2048u, 4096u}) {
    if (value == std::to_string(allowed)) {
      mtu = allowed;
      return {};
    }
  }
  return wrong("mtu", value, "1024, 2048 or 4096");
}
Error set_impaired(Impaired& impaired, std::string_view value) {
  if (value != "roce" && value != "all") return wrong("impair", value, "roce or all");
  impaired = value == "roce" ? Impaired::kRoce : Impaired::kAll;
  return {};
}
Error set_edn(EdnForm& edn, std::string_view value) {
  if (value != "roce" && value != "icmp" && value != "off") return wrong("edn", value, "roce, icmp or off");
  edn = value == "roce" ? EdnForm::kRoce : value == "icmp" ? EdnForm::kIcmp : EdnForm::kOff;
  return {};
}
Error set_ecn_to_rtt(std::optional<MarkTranslation>& translation, std::string_view value) {
  if (value == "off" || value == "0") {
    translation.reset();
    return {};
  }
  const auto wanted = parse_translation(value);
  if (!wanted) {
    return wrong("ecn-to-rtt", value,
                 "off, or a time such as 200us (at most 1s) or auto, and behind commas rule=table, fixed, stepped or "
                 "probabilistic, window=8 (1 to 255), levels=10 (2 to 255), pmax=10%, rewrite=tr or ts");
  }
  translation = wanted;
  return {};
}
// "on", "off", or limits of queue and speed.
Error set_link_state(std::optional<LinkStateLimits>& limits, std::string_view value) {
  if (value == "off" || value == "0") {
    limits.reset();
    return {};
  }
  if (value == "on") {
    limits.emplace();
    return {};
  }
  const std::size_t comma = std::min(value.find(','), value.size());
  const auto queue = parse_quantity(value.substr(0, comma), kChanceUnits);
  const auto speed = parse_quantity(value.substr(std::min(comma + 1, value.size())), kChanceUnits);
  constexpr std::uint64_t kThousandth = 1'000, kWhole = 1'000'000;  // parts per million
  if (!queue || !speed || *queue < kThousandth || *queue > kWhole || *queue % kThousandth != 0 || *speed > kWhole ||
      *speed % kThousandth != 0) {
    return wrong("link-state", value,
                 "on, off, or a queue's part and a rate's such as 75%,50% (at most 100%, in steps of 0.1%)");
  }
  const auto high = static_cast<std::uint32_t>(*queue / kThousandth),
             low = static_cast<std::uint32_t>(*speed / kThousandth);
  limits = LinkStateLimits{
      .queue_high = high, .queue_low = high / 2, .speed_low = low, .speed_high = std::min(1000u, low + low / 2)};
  return {};
}
std::string print_link_state(const std::optional<LinkStateLimits>& limits) {
  if (!limits) return "off";
  return print_chance(limits->queue_high * 1'000) + "," + print_chance(limits->speed_low * 1'000);
}
Error set_seed(std::uint64_t& seed, std::string_view value) {
  const auto number = parse_quantity(value, std::span{kSizeUnits}.first(1));
  if (!number) return wrong("seed", value, "a whole number, at most 1000000000000");
  seed = *number;
  return {};
}

enum class Option : std::uint8_t {
  kLoss,
  kBurstLoss,
  kReorder,
  kDuplicate,
  kCorrupt,
  kDelay,
  kJitter,
  kRate,
  kQueue,
  kUplink,
  kPaths,
  kSkew,
  kPathLoss,
  kImpair,
  kEcn,
  kRandomDrop,
  kBuffer,
  kSwitchRate,
  kClasses,
  kDscp,
  kEdn,
  kEcnToRtt,
  kLinkState,
  kMtu,
  kSeed
};

// In the order of the enumerators.
constexpr std::array kOptions{
    NetworkOption{"loss", "P", "lose each packet with this chance", true},
    NetworkOption{"burst-loss", "P,LEN", "start a burst with this chance, which loses LEN packets on average", true},
    NetworkOption{"reorder", "P,DEPTH", "hold a packet back until DEPTH later ones have passed", true},
    NetworkOption{"duplicate", "P", "deliver a packet twice", true},
    NetworkOption{"corrupt", "P", "flip one bit of a packet", true},
    NetworkOption{"delay", "TIME", "one way, host to host", true},
    NetworkOption{"jitter", "TIME", "up to this much more delay, never reordering", true},
    NetworkOption{"rate", "RATE", "of each direction of each host's link", true},
    NetworkOption{"queue", "SIZE", "before each rate; what does not fit is dropped", true},
    NetworkOption{"uplink", "same|RATE|off", "host to switch; off: all queues are the switch's", true},
    NetworkOption{"paths", "K", "as many ways between two hosts, by UDP source port", true},
    NetworkOption{"skew", "TIME", "how much longer the last path is than the first", true},
    NetworkOption{"path-loss", "P,P,...", "what the first path loses beside --loss, the second, ...", true},
    NetworkOption{"impair", "roce|all", "which packets the faults befall", true},
    NetworkOption{"ecn", "MIN,MAX,P", "mark packets that find so long a queue, or delay; up to P", true},
    NetworkOption{"random-drop", "MIN,MAX,P", "drop them instead", true},
    NetworkOption{"buffer", "SIZE,ALPHA", "queues share SIZE; each may take ALPHA of what is free", true},
    NetworkOption{"switch-rate", "RATE|off", "packets that each switch can process: 2mpps", true},
    NetworkOption{"classes", "W,W,...", "queues of each port: strict, or their weight", true},
    NetworkOption{"dscp", "D=C,D=C,...", "which class a DSCP takes; others the last", true},
    NetworkOption{"edn", "roce|icmp|off", "notify a packet's sender that the switch has dropped it", true},
    NetworkOption{"ecn-to-rtt", "D,K=V,...|off", "turn marks into round-trip time, up to D", true},
    NetworkOption{"link-state", "on|off|Q,S", "with --topology: switches answer inquiries, report ports", true},
    NetworkOption{"mtu", "4096|2048|1024", "path MTU of the RoCE devices", false},
    NetworkOption{"seed", "S", "of every random decision", false},
};

std::optional<Option> find_option(std::string_view name) {
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    if (kOptions[i].name == name) return static_cast<Option>(i);
  }
  return std::nullopt;
}

}  // namespace

std::span<const NetworkOption> network_options() { return kOptions; }

std::optional<std::string> set_option(NetworkConfig& config, std::string_view name, std::string_view value) {
  const auto option = find_option(name);
  if (!option) return std::string{"no network option '"}.append(name).append("'");
  ImpairmentConfig& faults = config.link.impairments;
  switch (*option) {
    case Option::kLoss:
      return set_chance(faults.loss_ppm, name, value);
    case Option::kBurstLoss:
      return set_chance_and_count(faults.burst_loss_ppm, faults.burst_length_mean, 10'000, name, value);
    case Option::kReorder:
      return set_chance_and_count(faults.reorder_ppm, faults.reorder_depth, 1'000, name, value);
    case Option::kDuplicate:
      return set_chance(faults.duplicate_ppm, name, value);
    case Option::kCorrupt:
      return set_chance(faults.corrupt_ppm, name, value);
    case Option::kDelay:
      return set_time(config.link.delay, kDelayNsMax, name, value);
    case Option::kJitter:
      return set_time(faults.jitter, kJitterNsMax, name, value);
    case Option::kRate:
      return set_rate(config.link.rate, name, value);
    case Option::kQueue:
      return set_queue(config.link, value);
    case Option::kUplink:
      return set_uplink(config.uplink, value);
    case Option::kPaths:
      return set_paths(config.link.paths, value);
    case Option::kSkew:
      return set_time(config.link.skew, kDelayNsMax, name, value);
    case Option::kPathLoss:
      return set_path_loss(config.link, name, value);
    case Option::kImpair:
      return set_impaired(config.impaired, value);
    case Option::kEcn:
      return set_curve(config.link.marking, name, value);
    case Option::kRandomDrop:
      return set_curve(config.link.random_drop, name, value);
    case Option::kBuffer:
      return set_buffer(config.buffer, value);
    case Option::kSwitchRate:
      return set_switch_rate(config.switch_rate, value);
    case Option::kClasses:
      if (parse_classes(config.link.classes, value)) return {};
      return wrong(name, value, "up to 8 of strict or a weight, 1 to 64: strict,4,1");
    case Option::kDscp:
      if (parse_dscp(config.link.classes, value)) return {};
      return wrong(name, value, "DSCP=CLASS such as 46=0,26=1 (0 to 63, 0 to 7), or off");
    case Option::kEdn:
      return set_edn(config.edn, value);
    case Option::kEcnToRtt:
      return set_ecn_to_rtt(config.ecn_to_rtt, value);
    case Option::kLinkState:
      return set_link_state(config.link_state, value);
    case Option::kMtu:
      return set_mtu(config.mtu, value);
    case Option::kSeed:
      return set_seed(config.seed, value);
  }
  return "no such network option";
}

std::string get_option(const NetworkConfig& config, std::string_view name) {
  const auto option = find_option(name);
  BRDMA_CHECK(option.has_value());
  const ImpairmentConfig& faults = config.link.impairments;
  const auto time = [](Duration d) { return print_quantity(static_cast<std::uint64_t>(d.ns()), kTimeUnits); };
  switch (*option) {
    case Option::kLoss:
      return print_chance(faults.loss_ppm);
    case Option::kBurstLoss:
      return print_chance_and_count(faults.burst_loss_ppm, faults.burst_length_mean);
    case Option::kReorder:
      return print_chance_and_count(faults.reorder_ppm, faults.reorder_depth);
    case Option::kDuplicate:
      return print_chance(faults.duplicate_ppm);
    case Option::kCorrupt:
      return print_chance(faults.corrupt_ppm);
    case Option::kDelay:
      return time(config.link.delay);
    case Option::kJitter:
      return time(faults.jitter);
    case Option::kRate:
      return print_rate(config.link.rate);
    case Option::kQueue:
      return print_quantity(config.link.queue_bytes, kSizeUnits);
    case Option::kUplink:
      return config.uplink.same ? "same" : print_rate(config.uplink.rate);
    case Option::kPaths:
      return std::to_string(config.link.paths);
    case Option::kSkew:
      return time(config.link.skew);
    case Option::kPathLoss:
      return print_path_loss(config.link);
    case Option::kImpair:
      return config.impaired == Impaired::kRoce ? "roce" : "all";
    case Option::kEcn:
      return print_curve(config.link.marking);
    case Option::kRandomDrop:
      return print_curve(config.link.random_drop);
    case Option::kBuffer:
      return print_buffer(config.buffer);
    case Option::kSwitchRate:
      return config.switch_rate ? print_quantity(*config.switch_rate, kPacketRateUnits) : "off";
    case Option::kClasses:
      return print_classes(config.link.classes);
    case Option::kDscp:
      return print_dscp(config.link.classes);
    case Option::kEdn:
      return config.edn == EdnForm::kOff ? "off" : config.edn == EdnForm::kRoce ? "roce" : "icmp";
    case Option::kEcnToRtt:
      return config.ecn_to_rtt ? print_translation(*config.ecn_to_rtt) : "off";
    case Option::kLinkState:
      return print_link_state(config.link_state);
    case Option::kMtu:
      return std::to_string(config.mtu);
    case Option::kSeed:
      return std::to_string(config.seed);
  }
  return {};
}

namespace {

// The first option that has no effect without a rate.
std::string_view needs_rate(const NetworkConfig& config) {
  if (config.link.marking) return "ecn";
  if (config.link.random_drop) return "random-drop";
  if (config.buffer.bytes != 0) return "buffer";
  return config.link.classes.count > 1 ? "classes" : "";
}

// A curve over parts of a buffer that does not exist.
std::string_view needs_buffer(const NetworkConfig& config) {
  if (config.buffer.bytes != 0) return "";
  const auto by_occupancy = [](const auto& curve) { return curve && curve->by == MarkedBy::kOccupancy; };
  if (by_occupancy(config.link.marking)) return "ecn";
  return by_occupancy(config.link.random_drop) ? "random-drop" : "";
}

}  // namespace

std::optional<std::string> check_network(const NetworkConfig& config) {
  if (const std::string_view option = needs_rate(config); !config.link.rate && !option.empty())
    return std::string{option}.append(" needs a rate (for example rate 1gbit): without one no queue forms");
  if (const std::string_view option = needs_buffer(config); !option.empty())
    return std::string{option}.append(" by parts of the buffer needs a buffer (for example buffer 2mb)");
  if (config.ecn_to_rtt && !config.link.marking) return "ecn-to-rtt needs ecn: there would be no marks to translate";
  return {};
}

std::optional<IncrementConfig> increment_of(const NetworkConfig& config, std::uint32_t ports,
                                            const std::optional<Bandwidth>& rate) {
  if (!config.ecn_to_rtt) return std::nullopt;
  IncrementConfig increment = config.ecn_to_rtt->increment;
  if (!config.ecn_to_rtt->computed) return increment;
  if (!rate || ports == 0) return std::nullopt;
  const std::uint64_t memory = config.buffer.bytes != 0 ? config.buffer.bytes : config.link.queue_bytes * ports;
  increment.longest = std::min(longest_delay(memory, ports, *rate), kLongestIncrement);
  return increment;
}

std::string network_text(const NetworkConfig& config) {
  const NetworkConfig defaults;
  std::string text;
  for (const NetworkOption& option : kOptions) {
    const std::string value = get_option(config, option.name);
    if (option.name == "seed" || value == get_option(defaults, option.name)) continue;
    text.append(text.empty() ? "" : ";").append(option.name).append("=").append(value);
  }
  return text;
}

std::uint32_t interface_mtu(std::uint32_t path_mtu) {
  // Usual sizes: 1500 carries 1024, jumbo frames of 9000 carry 4096; between them 2048 in 2300.
  if (path_mtu >= 4096) return 9000;
  return path_mtu >= 2048 ? 2300 : 1500;
}

}  // namespace brdma::fabric
