#include "capabilities.h"

#include <string>

#include "control/definitions.h"
#include "io/daemon/lease_protocol.h"
#include "qp/state/limits.h"

namespace brdma {
namespace {

constexpr int kWireVersion = 1;  // of CAPS (docs/reference/wire.md)

Json words_of(const control::ChoiceSetting& choice) {
  Json words = Json::array();
  for (const std::string_view word : choice.words) words.push_back(word);
  return words;
}

std::uint64_t largest(const char* key) {
  const control::Definition* const definition = control::find_definition(key);
  const auto* number = definition != nullptr ? std::get_if<control::NumberSetting>(&definition->kind) : nullptr;
  return number != nullptr ? number->max : 1;  // a setting without a number has one value
}

}  // namespace

Json device_capabilities() {
  const control::Definition* const mode = control::find_definition("recovery.mode");
  return {{"modes", words_of(std::get<control::ChoiceSetting>(mode->kind))},
          {"wire_version", kWireVersion},
          {"lease_protocol", io::kLeaseVersion},
          {"window_max", largest("recovery.window")},
          {"granularity_max", largest("recovery.granularity")},
          {"paths_max", largest("recovery.paths")},
          {"qps_max", largest("recovery.qps_max")},
          {"contexts_max", io::kSlotCount - io::kFirstLeasableSlot},
          {"work_requests_max", qp::kWorkRequestsMax},
          {"message_bytes_max", qp::kMessageBytesMax}};
}

std::vector<Json> setting_capabilities(std::string_view prefix) {
  std::vector<Json> rows;
  const control::Settings defaults;
  for (const control::Definition& definition : control::definitions()) {
    if (!definition.key.starts_with(prefix)) continue;
    Json row = {{"key", definition.key}};
    if (const auto* number = std::get_if<control::NumberSetting>(&definition.kind)) {
      row.update({{"default", number->get(defaults)},
                  {"min", number->min},
                  {"max", number->max},
                  {"power_of_two", number->power_of_two}});
    } else {
      row["default"] = control::value_text(definition, defaults);
    }
    if (const auto* choice = std::get_if<control::ChoiceSetting>(&definition.kind)) row["words"] = words_of(*choice);
    row["applies"] = control::name(definition.applies);
    row["meaning"] = definition.meaning;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace brdma
