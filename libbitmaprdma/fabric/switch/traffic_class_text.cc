#include "fabric/switch/traffic_class_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "fabric/quantity.h"

namespace brdma::fabric {
namespace {

std::optional<std::uint32_t> parse_count(std::string_view text, std::uint32_t max) {
  const auto number = parse_quantity(text, std::span{kSizeUnits}.first(1));
  if (!number || *number > max) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

}  // namespace

bool parse_classes(TrafficClasses& classes, std::string_view value) {
  TrafficClasses wanted = classes;
  wanted.count = 0;
  for (std::string_view rest = value;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    const auto weight = word == "strict" ? std::optional{0u} : parse_count(word, kClassWeightMax);
    if (wanted.count == kClassesMax || !weight || (*weight == 0 && word != "strict")) {
      return false;
    }
    wanted.weights[wanted.count++] = *weight;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  for (std::size_t i = wanted.count; i < kClassesMax; ++i) wanted.weights[i] = 1;
  classes = wanted;
  return true;
}
std::string print_classes(const TrafficClasses& classes) {
  std::string text;
  for (std::size_t i = 0; i < classes.count; ++i) {
    text += i == 0 ? "" : ",";
    text += classes.weights[i] == 0 ? "strict" : std::to_string(classes.weights[i]);
  }
  return text;
}

bool parse_dscp(TrafficClasses& classes, std::string_view value) {
  auto wanted = TrafficClasses::all_in_the_last();
  for (std::string_view rest = value; value != "off" && value != "0";) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    const std::size_t equals = std::min(word.find('='), word.size());
    const auto dscp = parse_count(word.substr(0, equals), 63);
    const auto place = parse_count(word.substr(std::min(equals + 1, word.size())), kClassesMax - 1);
    if (!dscp || !place) return false;
    wanted[*dscp] = static_cast<std::uint8_t>(*place);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  classes.of_dscp = wanted;
  return true;
}
std::string print_dscp(const TrafficClasses& classes) {
  std::string text;
  for (std::size_t i = 0; i < classes.of_dscp.size(); ++i) {
    if (classes.of_dscp[i] == TrafficClasses::kLast) continue;
    text += (text.empty() ? "" : ",") + std::to_string(i) + "=" + std::to_string(classes.of_dscp[i]);
  }
  return text.empty() ? "off" : text;
}

}  // namespace brdma::fabric
