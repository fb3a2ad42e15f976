#include "samples/quantities.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "samples/errors.h"

namespace brdma::samples {
namespace {

struct Parsed {
  double value;
  std::string_view unit;
};

Parsed split(std::string_view text, const char* expected) {
  Parsed parsed{0, {}};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed.value);
  if (error != std::errc{} || !std::isfinite(parsed.value) || parsed.value < 0) {
    throw Misuse("'" + std::string{text} + "': expected " + expected);
  }
  parsed.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return parsed;
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text) {
  static constexpr const char* kExpected = "a size such as 4096, 64K or 1M";
  constexpr std::array<std::pair<std::string_view, double>, 7> kUnits{
      {{"", 1}, {"K", 1024}, {"k", 1024}, {"M", 1 << 20}, {"m", 1 << 20}, {"G", 1 << 30}, {"g", 1 << 30}}};
  const Parsed parsed = split(text, kExpected);
  for (const auto& [unit, factor] : kUnits) {
    if (parsed.unit == unit && parsed.value * factor < 1e15) {
      return static_cast<std::uint64_t>(std::llround(parsed.value * factor));
    }
  }
  throw Misuse("'" + std::string{text} + "': expected " + kExpected);
}

std::int64_t parse_time(std::string_view text) {
  static constexpr const char* kExpected = "a time such as 100us, 5ms or 2s, at most a day";
  constexpr std::array<std::pair<std::string_view, double>, 5> kUnits{
      {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}}};
  const Parsed parsed = split(text, kExpected);
  for (const auto& [unit, factor] : kUnits) {
    const double ns = parsed.value * factor;
    if (parsed.unit == unit && ns >= 1 && ns <= 86'400e9) return std::llround(ns);
  }
  throw Misuse("'" + std::string{text} + "': expected " + kExpected);
}

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

}  // namespace brdma::samples
