#include "fabric/quantity.h"

#include <limits>

namespace brdma::fabric {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A decimal number without a sign, digits before and after the point apart, then the rest (the unit).
struct Decimal {
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;  // of `scale`
  std::uint64_t scale = 1;
  std::string_view rest;
};
std::optional<Decimal> parse_decimal(std::string_view text) {
  constexpr std::uint64_t kLimit = 1'000'000'000'000;
  Decimal number;
  std::size_t i = 0, digits = 0;
  for (; i < text.size() && is_digit(text[i]); ++i, ++digits) {
    number.whole = number.whole * 10 + static_cast<std::uint64_t>(text[i] - '0');
    if (number.whole > kLimit) return std::nullopt;
  }
  if (i < text.size() && text[i] == '.') {
    for (++i; i < text.size() && is_digit(text[i]); ++i, ++digits) {
      if (number.scale >= 1'000'000'000) return std::nullopt;
      number.fraction = number.fraction * 10 + static_cast<std::uint64_t>(text[i] - '0');
      number.scale *= 10;
    }
  }
  if (digits == 0) return std::nullopt;
  number.rest = text.substr(i);
  return number;
}

}  // namespace

std::optional<std::uint64_t> parse_quantity(std::string_view text, std::span<const Unit> units) {
  const auto number = parse_decimal(text);
  if (!number) return std::nullopt;
  if (number->whole == 0 && number->fraction == 0 && number->rest.empty()) return 0;
  for (const Unit& unit : units) {
    if (unit.name != number->rest) continue;
    if (number->whole > std::numeric_limits<std::uint64_t>::max() / 2 / unit.factor) return std::nullopt;
    if (number->fraction * unit.factor % number->scale != 0) return std::nullopt;
    return number->whole * unit.factor + number->fraction * unit.factor / number->scale;
  }
  return std::nullopt;
}

std::string print_quantity(std::uint64_t quantity, std::span<const Unit> units) {
  if (quantity == 0) return "0";
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    if (quantity % unit->factor == 0) return std::to_string(quantity / unit->factor).append(unit->name);
  }
  return std::to_string(quantity).append(units.front().name);
}

std::string print_chance(std::uint32_t ppm) {
  if (ppm % 10'000 == 0 || ppm < 10) return print_quantity(ppm, kChanceUnits);
  std::string fraction = std::to_string(10'000 + ppm % 10'000).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return std::to_string(ppm / 10'000) + "." + fraction + "%";
}

}  // namespace brdma::fabric
