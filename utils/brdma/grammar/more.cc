#include "grammar/more.h"

#include "control/definitions.h"
#include "grammar/help.h"
#include "lab/commands/options.h"
#include "lab/commands/topology_option.h"
#include "trace/journal.h"

namespace brdma::grammar {
namespace {

constexpr std::size_t kBehindAlarm = 6, kAlarmWidth = 96;

}  // namespace

std::string event_types() {
  std::string text = "TYPE is one of:\n";
  for (const auto& type : trace::kEventTypes) text += "  " + std::string{type.name} + "\n";
  return text + "  alarm_raised\n  alarm_cleared\n  events_lost\n";
}

std::string alarm_keys() {
  std::string text = "KEY is one of:\n";
  for (const control::Definition& definition : control::definitions()) {
    if (!definition.key.starts_with("alarm.")) continue;
    text += "  " + std::string{definition.key} + "\n" + wrapped(definition.meaning, kBehindAlarm, kAlarmWidth);
  }
  return text;
}

std::string network_options_text() {
  std::string topologies;
  for (const std::string& name : lab::topology_names()) topologies += (topologies.empty() ? "" : ", ") + name;
  return "NETWORK:\n" + lab::network_help() + "\nNAME of a topology: " + topologies + "\n";
}

}  // namespace brdma::grammar
