// fabric/switch/mark_translation.h - settings of the translation of ECN marks into round-trip time (design ER-17), for
// the option `ecn-to-rtt` of fabric/network.h, which changes them while traffic runs.
//   200us                                      D, at most 1 s; the table of marks in windows of 8 packets
//   auto                                       D from memory, ports and their rate (design ER-11)
//   auto,rule=stepped,levels=10,rewrite=ts     and others, each at most once, in any order:
//     rule=table|fixed|stepped|probabilistic   fabric/switch/rtt_increment.h
//     window=8                                 packets, 1 to 255; of table and fixed
//     levels=10                                N, 2 to 255; of stepped and probabilistic
//     pmax=10%                                 of probabilistic
//     rewrite=tr|ts                            which timestamp of an acknowledgement
// What is not named has its default. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "fabric/switch/rtt_increment.h"

namespace brdma::fabric {

enum class Rewrite : std::uint8_t { kTr, kTs };

struct MarkTranslation {
  IncrementConfig increment{};
  bool computed = false;  // increment.longest is not set: D of a switch's memory, by longest_delay()
  Rewrite rewrite = Rewrite::kTr;
  friend bool operator==(const MarkTranslation&, const MarkTranslation&) = default;
};

// An acknowledgement's `made - Tr` has 32 bits with sign, 2.1 s: a receiver states up to 2 s, and a switch takes off 1
// s.
inline constexpr Duration kLongestIncrement = 1_s;

// Nothing: not of this form. "off" is the caller's.
[[nodiscard]] std::optional<MarkTranslation> parse_translation(std::string_view text);
[[nodiscard]] std::string print_translation(const MarkTranslation& translation);

}  // namespace brdma::fabric
