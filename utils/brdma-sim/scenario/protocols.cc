#include "scenario/protocols.h"

#include <algorithm>
#include <array>
#include <string>

#include "control/config.h"
#include "control/definitions.h"
#include "run/models.h"

namespace brdma::simulator {
namespace {

struct NamedProtocol {
  std::string_view name;
  RecoveryMode mode;
  bool edn;
};
constexpr std::array kProtocols{
    NamedProtocol{"bitmap", RecoveryMode::kBitmap, false},
    NamedProtocol{"bitmap-edn", RecoveryMode::kBitmap, true},
    NamedProtocol{"selective", RecoveryMode::kSelective, false},
    NamedProtocol{"selective-edn", RecoveryMode::kSelective, true},
    NamedProtocol{"wan", RecoveryMode::kWan, false},
    NamedProtocol{"wan_ffm", RecoveryMode::kWanFeedback, false},
    NamedProtocol{"standard", RecoveryMode::kStandard, false},
    NamedProtocol{"gobackn", RecoveryMode::kGoBackN, false},
};

// Settings that the protocol's name decides.
bool is_named(std::string_view key) {
  return key == "recovery.mode" || key == "recovery.edn" || key == "congestion.edn";
}

bool is_protocol_setting(const control::Definition& definition) {
  return definition.key.starts_with("recovery.") || definition.key.starts_with("congestion.") ||
         definition.key.starts_with("wan.");
}

void take_setting(const TableReader& reader, std::string_view key, const toml::node& node, ProtocolPlan& protocol) {
  const control::Definition* const definition = control::find_definition(key);
  if (definition == nullptr || !is_protocol_setting(*definition)) {
    std::vector<std::string_view> known;
    for (const auto& each : control::definitions()) {
      if (is_protocol_setting(each) && !is_named(each.key)) known.push_back(each.key.substr(each.key.find('.') + 1));
    }
    reader.fail_unknown(node, "setting", key, known);
  }
  if (is_named(definition->key)) reader.fail(node, std::string{key} + ": the protocol's name decides it");
  control::Settings settings;
  settings.recovery = protocol.recovery;
  const std::string value = reader.value_text(node, key);
  if (!control::assign(*definition, value, settings)) {
    reader.fail(node, std::string{key} + " '" + value + "': expected " + control::allowed_text(*definition));
  }
  protocol.recovery = settings.recovery;
}

void take_name(const TableReader& reader, const toml::node& node, ProtocolPlan& protocol) {
  const std::string name = reader.text(node, "name");
  const auto found =
      std::find_if(kProtocols.begin(), kProtocols.end(), [&](const NamedProtocol& each) { return each.name == name; });
  const std::vector<std::string_view> models = model_names();
  protocol.is_model = std::find(models.begin(), models.end(), name) != models.end();
  if (found == kProtocols.end() && !protocol.is_model) reader.fail_unknown(node, "protocol", name, protocol_names());
  protocol.name = name;
  if (protocol.is_model) return;
  protocol.recovery.mode = found->mode;
  protocol.recovery.edn = protocol.recovery.congestion.edn = found->edn;
}

}  // namespace

std::vector<std::string_view> protocol_names() {
  std::vector<std::string_view> names;
  for (const NamedProtocol& each : kProtocols) names.push_back(each.name);
  const std::vector<std::string_view> models = model_names();
  names.insert(names.end(), models.begin(), models.end());
  return names;
}

void read_protocol(const TableReader& reader, const toml::table& table, const std::string& what, ProtocolPlan& protocol,
                   const std::vector<TableReader::Key>& more) {
  std::vector<TableReader::Key> keys{
      {"name", [&](const toml::node& node) { take_name(reader, node, protocol); }},
      {"timeout",
       [&](const toml::node& node) {
         protocol.timeout = static_cast<std::uint8_t>(reader.number(node, "timeout", 1, 31));
       }},
      {"retry-count",
       [&](const toml::node& node) {
         protocol.retry_count = static_cast<std::uint8_t>(reader.number(node, "retry-count", 0, 7));
       }},
      {"batch",
       [&](const toml::node& node) {
         protocol.batch = static_cast<std::uint32_t>(reader.number(node, "batch", 1, 64));
       }},
      {"irn-low", [&](const toml::node& node) { protocol.irn_low = reader.time(node, "irn-low"); }},
      {"irn-high", [&](const toml::node& node) { protocol.irn_high = reader.time(node, "irn-high"); }},
      {"settings",
       [&](const toml::node& node) {
         for (const auto& [key, value] : reader.table(node, "settings")) {
           take_setting(reader, key.str(), value, protocol);
         }
       }},
  };
  keys.insert(keys.end(), more.begin(), more.end());
  if (const toml::node* name = table.get("name")) take_name(reader, *name, protocol);  // settings change what it makes
  reader.read(table, what, keys);
  if (protocol.is_model) {
    for (const char* key : {"timeout", "retry-count", "batch", "irn-low", "irn-high", "settings"}) {
      if (table.contains(key))
        reader.fail(*table.get(key), std::string{key} + ": " + protocol.name + " has no such setting");
    }
  }
  const bool irn = protocol.irn_low || protocol.irn_high;
  if (irn && !(protocol.irn_low && protocol.irn_high && protocol.recovery.mode == RecoveryMode::kSelective)) {
    reader.fail(table, "irn-low and irn-high go together, with selective or selective-edn");
  }
}

}  // namespace brdma::simulator
