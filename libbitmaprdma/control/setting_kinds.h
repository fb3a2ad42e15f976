// control/setting_kinds.h - how a row of the table of settings (definitions.cc) reads and writes its member: ranges,
// words, units. Only definitions.cc includes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "control/definitions.h"

namespace brdma::control::kinds {

inline constexpr std::array<std::string_view, 6> kModes{"bitmap",    "standard", "gobackn",
                                                        "selective", "wan",      "wan_ffm"};  // order of RecoveryMode
inline constexpr std::array<std::string_view, 3> kDatapaths{"auto", "udp", "xdp"};            // order of Datapath
inline constexpr std::array<std::string_view, 3> kSprayings{"round_robin", "least_rtt",
                                                            "weighted"};  // order of Spraying
inline constexpr std::array<std::string_view, 6> kControls{"window", "timely", "dcqcn",
                                                           "none",   "paced",  "both"};      // of CongestionControl
inline constexpr std::array<std::string_view, 4> kEcnFields{"auto", "off", "ect0", "ect1"};  // of EcnField
inline constexpr std::array<std::string_view, 2> kSwitch{"false", "true"};

// The member at the end of the path: at<&Settings::recovery, &RecoveryConfig::ack_packets>(settings).
template <auto First, auto... Rest, class Object>
constexpr auto& at(Object& object) {
  if constexpr (sizeof...(Rest) == 0) {
    return object.*First;
  } else {
    return at<Rest...>(object.*First);
  }
}
template <auto... Path>
constexpr NumberSetting whole(std::uint64_t min, std::uint64_t max, bool power_of_two = false) {
  return {min, max, power_of_two, [](const Settings& s) -> std::uint64_t { return at<Path...>(s); },
          [](Settings& s, std::uint64_t value) {
            auto& member = at<Path...>(s);
            member = static_cast<std::remove_reference_t<decltype(member)>>(value);
          }};
}
template <auto... Path>
constexpr NumberSetting in_us(std::uint64_t min, std::uint64_t max) {
  return {min, max, false, [](const Settings& s) { return static_cast<std::uint64_t>(at<Path...>(s).ns() / 1000); },
          [](Settings& s, std::uint64_t value) {
            at<Path...>(s) = Duration::from_ns(static_cast<std::int64_t>(value) * 1000);
          }};
}

template <auto Member>
constexpr NumberSetting count(std::uint64_t min, std::uint64_t max, bool power_of_two = false) {
  return whole<&Settings::recovery, Member>(min, max, power_of_two);
}
template <auto Member>
constexpr NumberSetting microseconds(std::uint64_t min, std::uint64_t max) {
  return in_us<&Settings::recovery, Member>(min, max);
}
// Of a duration that is set in whole seconds.
template <Duration RecoveryConfig::*Member>
constexpr NumberSetting seconds(std::uint64_t max) {
  constexpr std::int64_t kNs = 1'000'000'000;
  return {0, max, false, [](const Settings& s) { return static_cast<std::uint64_t>((s.recovery.*Member).ns() / kNs); },
          [](Settings& s, std::uint64_t value) {
            s.recovery.*Member = Duration::from_ns(static_cast<std::int64_t>(value) * kNs);
          }};
}
template <auto Member>
constexpr NumberSetting congestion(std::uint64_t min, std::uint64_t max) {
  return whole<&Settings::recovery, &RecoveryConfig::congestion, Member>(min, max);
}
template <auto Member>
constexpr NumberSetting congestion_us(std::uint64_t min, std::uint64_t max) {
  return in_us<&Settings::recovery, &RecoveryConfig::congestion, Member>(min, max);
}
template <auto Member>
constexpr NumberSetting wan(std::uint64_t min, std::uint64_t max) {
  return whole<&Settings::recovery, &RecoveryConfig::wan, Member>(min, max);
}
template <auto Member>
constexpr NumberSetting wan_us(std::uint64_t min, std::uint64_t max) {
  return in_us<&Settings::recovery, &RecoveryConfig::wan, Member>(min, max);
}
template <auto Member>
constexpr NumberSetting transfer(std::uint64_t min, std::uint64_t max) {
  return whole<&Settings::transfer, Member>(min, max);
}

inline constexpr std::uint8_t kNoDscp = 64;  // one more than the highest
constexpr NumberSetting managed_dscp() {
  return {0, kNoDscp, false,
          [](const Settings& s) -> std::uint64_t { return s.recovery.wan.managed_dscp.value_or(kNoDscp); },
          [](Settings& s, std::uint64_t value) {
            auto& dscp = s.recovery.wan.managed_dscp;
            dscp = value == kNoDscp ? std::nullopt : std::optional{static_cast<std::uint8_t>(value)};
          }};
}

constexpr ChoiceSetting local() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.transfer.local); },
          [](Settings& s, std::size_t place) { s.transfer.local = place != 0; }};
}

constexpr ChoiceSetting mode() {
  return {kModes, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.mode); },
          [](Settings& s, std::size_t place) { s.recovery.mode = static_cast<RecoveryMode>(place); }};
}

constexpr ChoiceSetting spraying() {
  return {kSprayings, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.spraying); },
          [](Settings& s, std::size_t place) { s.recovery.spraying = static_cast<Spraying>(place); }};
}

constexpr ChoiceSetting control() {
  return {
      kControls, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.congestion.control); },
      [](Settings& s, std::size_t place) { s.recovery.congestion.control = static_cast<CongestionControl>(place); }};
}

constexpr ChoiceSetting ecn() {
  return {kEcnFields, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.congestion.ecn); },
          [](Settings& s, std::size_t place) { s.recovery.congestion.ecn = static_cast<EcnField>(place); }};
}

constexpr ChoiceSetting adaptive() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.adaptive); },
          [](Settings& s, std::size_t place) { s.recovery.adaptive = place != 0; }};
}

constexpr ChoiceSetting edn() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.edn); },
          [](Settings& s, std::size_t place) { s.recovery.edn = place != 0; }};
}

constexpr ChoiceSetting congestion_edn() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.recovery.congestion.edn); },
          [](Settings& s, std::size_t place) { s.recovery.congestion.edn = place != 0; }};
}

constexpr ChoiceSetting datapath() {
  return {kDatapaths, [](const Settings& s) { return static_cast<std::size_t>(s.datapath.receive); },
          [](Settings& s, std::size_t place) { s.datapath.receive = static_cast<Datapath>(place); }};
}

constexpr ChoiceSetting transmit_datapath() {
  return {kDatapaths, [](const Settings& s) { return static_cast<std::size_t>(s.datapath.transmit); },
          [](Settings& s, std::size_t place) { s.datapath.transmit = static_cast<Datapath>(place); }};
}

constexpr ChoiceSetting xdp_mode() {
  return {kXdpModeNames, [](const Settings& s) { return static_cast<std::size_t>(s.datapath.xdp_mode); },
          [](Settings& s, std::size_t place) { s.datapath.xdp_mode = static_cast<XdpMode>(place); }};
}

constexpr ChoiceSetting loopback() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.loopback_device); },
          [](Settings& s, std::size_t place) { s.loopback_device = place != 0; }};
}

constexpr ChoiceSetting kernel_rdma_cm() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.kernel_rdma_cm); },
          [](Settings& s, std::size_t place) { s.kernel_rdma_cm = place != 0; }};
}

constexpr ChoiceSetting kernel_devices() {
  return {kSwitch, [](const Settings& s) { return static_cast<std::size_t>(s.kernel_devices); },
          [](Settings& s, std::size_t place) { s.kernel_devices = place != 0; }};
}

// 0 stands for "not set", so that a seed of 0 can't be asked for.
constexpr NumberSetting seed() {
  return {0, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), false,
          [](const Settings& s) { return s.seed.value_or(0); },
          [](Settings& s, std::uint64_t value) {
            if (value == 0)
              s.seed.reset();
            else
              s.seed = value;
          }};
}

}  // namespace brdma::control::kinds
