#include "fabric/marking_text.h"

#include <array>
#include <cstdint>
#include <span>

#include "fabric/quantity.h"

namespace brdma::fabric {
namespace {

struct Measure {
  MarkedBy by;
  std::span<const Unit> units;
  std::uint64_t max;
};
// Lengths first: 0,0 without units is one.
constexpr std::array kMeasures{Measure{MarkedBy::kLength, kSizeUnits, 1u << 30},
                               Measure{MarkedBy::kDelay, kTimeUnits, 10'000'000'000},
                               Measure{MarkedBy::kOccupancy, kChanceUnits, 1'000'000}};

}  // namespace

std::optional<MarkingConfig> parse_marking(std::string_view text) {
  const std::size_t first = text.find(','), second = text.find(',', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
  const auto chance = parse_quantity(text.substr(second + 1), kChanceUnits);
  if (!chance || *chance > 1'000'000) return std::nullopt;
  for (const Measure& measure : kMeasures) {
    const auto low = parse_quantity(text.substr(0, first), measure.units);
    const auto high = parse_quantity(text.substr(first + 1, second - first - 1), measure.units);
    if (low && high && *low <= *high && *high <= measure.max) {
      return MarkingConfig{*low, *high, static_cast<std::uint32_t>(*chance), measure.by};
    }
  }
  return std::nullopt;
}

std::string print_marking(const MarkingConfig& marking) {
  const auto print = [&marking](std::uint64_t value) {
    if (marking.by == MarkedBy::kOccupancy) return print_chance(static_cast<std::uint32_t>(value));
    return print_quantity(value, marking.by == MarkedBy::kLength ? std::span<const Unit>{kSizeUnits} : kTimeUnits);
  };
  return print(marking.low) + "," + print(marking.high) + "," + print_chance(marking.chance_ppm);
}

}  // namespace brdma::fabric
