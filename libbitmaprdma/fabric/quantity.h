// fabric/quantity.h - decimal quantities with units as text ("1.5ms", "10gbit"), to and from whole numbers of the
// smallest unit: values of a network's settings (fabric/network.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace brdma::fabric {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
inline constexpr std::array kTimeUnits{Unit{"ns", 1}, Unit{"us", 1'000}, Unit{"ms", 1'000'000},
                                       Unit{"s", 1'000'000'000}};
inline constexpr std::array kChanceUnits{Unit{"ppm", 1}, Unit{"%", 10'000}};
inline constexpr std::array kRateUnits{Unit{"bit", 1}, Unit{"kbit", 1'000}, Unit{"mbit", 1'000'000},
                                       Unit{"gbit", 1'000'000'000}};
inline constexpr std::array kSizeUnits{Unit{"", 1}, Unit{"b", 1}, Unit{"kb", 1024}, Unit{"mb", 1024 * 1024}};
inline constexpr std::array kPacketRateUnits{Unit{"pps", 1}, Unit{"kpps", 1'000}, Unit{"mpps", 1'000'000},
                                             Unit{"gpps", 1'000'000'000}};
inline constexpr std::array kRatioUnits{Unit{"", 1'000}};  // in thousandths

// In the smallest unit; nothing if it is no number, has no or an unknown unit, or is no whole number of smallest units.
[[nodiscard]] std::optional<std::uint64_t> parse_quantity(std::string_view text, std::span<const Unit> units);
// With the largest unit that needs no fraction.
[[nodiscard]] std::string print_quantity(std::uint64_t quantity, std::span<const Unit> units);
// Per cent, with a fraction where it has one.
[[nodiscard]] std::string print_chance(std::uint32_t ppm);

}  // namespace brdma::fabric
