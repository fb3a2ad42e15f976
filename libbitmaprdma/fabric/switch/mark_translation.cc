#include "fabric/switch/mark_translation.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "fabric/quantity.h"

namespace brdma::fabric {
namespace {

constexpr std::array kRules{std::pair{std::string_view{"table"}, IncrementRule::kTable},
                            std::pair{std::string_view{"fixed"}, IncrementRule::kFixed},
                            std::pair{std::string_view{"stepped"}, IncrementRule::kStepped},
                            std::pair{std::string_view{"probabilistic"}, IncrementRule::kProbabilistic}};

bool set_longest(MarkTranslation& wanted, std::string_view text) {
  wanted.computed = text == "auto";
  if (wanted.computed) return true;
  const auto ns = parse_quantity(text, kTimeUnits);
  if (!ns || *ns == 0 || *ns > static_cast<std::uint64_t>(kLongestIncrement.ns())) return false;
  wanted.increment.longest = Duration::from_ns(static_cast<std::int64_t>(*ns));
  return true;
}
bool set_rule(IncrementRule& rule, std::string_view text) {
  const auto* const found =
      std::find_if(kRules.begin(), kRules.end(), [text](const auto& named) { return named.first == text; });
  if (found == kRules.end()) return false;
  rule = found->second;
  return true;
}
bool set_count(std::uint8_t& field, std::uint8_t min, std::string_view text) {
  const auto number = parse_quantity(text, std::span{kSizeUnits}.first(1));
  if (!number || *number < min || *number > 255) return false;
  field = static_cast<std::uint8_t>(*number);
  return true;
}
bool set_chance(std::uint32_t& ppm, std::string_view text) {
  const auto chance = parse_quantity(text, kChanceUnits);
  if (!chance || *chance > 1'000'000) return false;
  ppm = static_cast<std::uint32_t>(*chance);
  return true;
}
bool set_rewrite(Rewrite& rewrite, std::string_view text) {
  rewrite = text == "ts" ? Rewrite::kTs : Rewrite::kTr;
  return text == "ts" || text == "tr";
}

// "KEY=VALUE"
bool set_part(MarkTranslation& wanted, std::string_view part) {
  const std::size_t equals = part.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view key = part.substr(0, equals), value = part.substr(equals + 1);
  if (key == "rule") return set_rule(wanted.increment.rule, value);
  if (key == "window") return set_count(wanted.increment.window, 1, value);
  if (key == "levels") return set_count(wanted.increment.levels, 2, value);
  if (key == "pmax") return set_chance(wanted.increment.pmax_ppm, value);
  return key == "rewrite" && set_rewrite(wanted.rewrite, value);
}

// "rule" of "rule=fixed"; each may be named once.
bool is_named_again(std::string_view part, std::string_view rest) {
  const std::string key = "," + std::string{part.substr(0, part.find('='))} + "=";
  return ("," + std::string{rest}).find(key) != std::string::npos;
}

}  // namespace

std::optional<MarkTranslation> parse_translation(std::string_view text) {
  MarkTranslation wanted;
  std::size_t comma = text.find(',');
  if (!set_longest(wanted, text.substr(0, comma))) return std::nullopt;
  while (comma != std::string_view::npos) {
    text.remove_prefix(comma + 1);
    comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    if (!set_part(wanted, part)) return std::nullopt;
    if (comma != std::string_view::npos && is_named_again(part, text.substr(comma + 1))) return std::nullopt;
  }
  return wanted;
}

std::string print_translation(const MarkTranslation& translation) {
  const IncrementConfig& increment = translation.increment;
  const IncrementConfig defaults;
  std::string text =
      translation.computed ? "auto" : print_quantity(static_cast<std::uint64_t>(increment.longest.ns()), kTimeUnits);
  if (increment.rule != defaults.rule) {
    text.append(",rule=").append(kRules[static_cast<std::size_t>(increment.rule)].first);
  }
  if (increment.window != defaults.window) text += ",window=" + std::to_string(increment.window);
  if (increment.levels != defaults.levels) text += ",levels=" + std::to_string(increment.levels);
  if (increment.pmax_ppm != defaults.pmax_ppm) text += ",pmax=" + print_chance(increment.pmax_ppm);
  if (translation.rewrite == Rewrite::kTs) text += ",rewrite=ts";
  return text;
}

}  // namespace brdma::fabric
