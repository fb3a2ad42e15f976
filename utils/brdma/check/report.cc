#include "check/report.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace brdma::check {
namespace {

const char* name(Severity severity) { return severity == Severity::kError ? "error" : "warning"; }

Json devices_json(const Facts& facts) {
  Json list = Json::array();
  for (const Device& device : facts.devices) {
    Json gids = Json::array();
    for (const Gid& gid : device.gids) gids.push_back({{"index", gid.index}, {"address", gid.address}});
    list.push_back({{"ifname", device.name},
                    {"netdev", device.netdev},
                    {"state", device.active ? "ACTIVE" : "DOWN"},
                    {"netdev_mtu", device.netdev_mtu},
                    {"active_mtu", device.path_mtu},
                    {"speed_mbps", device.speed_mbps},
                    {"gids", gids}});
  }
  return list;
}

Json opened_json(const Facts& facts) {
  Json list = Json::array();
  for (const Opened& one : facts.probe.opened) {
    list.push_back({{"ifname", one.device},
                    {"usable", one.transferred},
                    {"failed_step", one.step},
                    {"errno", one.error},
                    {"receive", one.receive},
                    {"receive_reason", one.receive_reason},
                    {"transmit", one.transmit},
                    {"transmit_reason", one.transmit_reason},
                    {"receive_buffer_bytes", one.receive_buffer},
                    {"receive_offload", one.receive_offload},
                    {"mode", one.mode}});
  }
  return list;
}

Json chosen_json(const Facts& facts) {
  const Configuration& configuration = facts.configuration;
  return {{"recovery_mode", configuration.recovery_mode},
          {"datapath_receive", configuration.datapath_receive},
          {"datapath_transmit", configuration.datapath_transmit},
          {"local_transfer", configuration.local},
          {"segmentation_offload", facts.host.segmentation_offload},
          {"processors", facts.host.processors},
          {"clock_source", facts.host.clock_source},
          {"devices", opened_json(facts)}};
}

Json origin_json(const Facts& facts) {
  Json settings = Json::array();
  for (const Setting& setting : facts.configuration.settings) {
    if (setting.source == "default") continue;
    settings.push_back(
        {{"key", setting.key}, {"value", setting.value}, {"source", setting.source}, {"where", setting.where}});
  }
  const Daemon& daemon = facts.daemon;
  Json running = nullptr;
  if (daemon.answers) {
    running = {{"version", daemon.version},
               {"lease_protocol", daemon.lease_protocol},
               {"uid", daemon.uid},
               {"system", daemon.serves_all_users}};
  }
  return {{"version", facts.library.version}, {"brdma", facts.library.brdma}, {"library", facts.library.path},
          {"daemon_program", daemon.program}, {"brdmad_running", running},    {"settings", settings}};
}

Json direction_json(const Direction& way) {
  return {{"sent", way.sent},           {"received", way.received},
          {"reordered", way.reordered}, {"duplicated", way.duplicated},
          {"path_mtu", way.path_mtu},   {"mbps", way.mbps},
          {"tcp_mbps", way.tcp_mbps}};
}

Json peer_json(const Peer& peer) {
  return {{"address", peer.address},
          {"version", peer.version},
          {"ifname", peer.own_device},
          {"peer_ifname", peer.device},
          {"active_mtu", peer.own_mtu},
          {"peer_active_mtu", peer.mtu},
          {"to_peer", direction_json(peer.to_peer)},
          {"from_peer", direction_json(peer.from_peer)},
          {"mode", peer.mode},
          {"data", peer.data},
          {"receive", peer.receive},
          {"transmit", peer.transmit},
          {"read_us", peer.read_us},
          {"tcp_us", peer.tcp_us}};
}

Json program_json(const Program& program) {
  return {{"name", program.name},
          {"path", program.path},
          {"interpreter", program.interpreter},
          {"static", program.is_static},
          {"privileged", program.changes_user || program.has_capabilities}};
}

std::string decimal(double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
  return text.data();
}

std::string kib(std::uint64_t bytes) { return grouped(bytes / 1024) + " KiB"; }

std::string reason_of(const std::string& reason) { return reason.empty() ? "" : " (" + reason + ")"; }

// Lines "  name  value" below a heading.
class Section {
 public:
  explicit Section(std::string heading) : text_(std::move(heading) + "\n") {}
  void add(const std::string& what, const std::string& value) {
    text_ += "  " + what + std::string(what.size() < kWidth ? kWidth - what.size() : 1, ' ') + value + "\n";
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  static constexpr std::size_t kWidth = 18;
  std::string text_;
};

std::string devices_text(const Facts& facts) {
  Section section{"programs see"};
  for (const Device& device : facts.devices) {
    section.add(device.name, std::string{device.active ? "ACTIVE" : "DOWN"} + ", interface " + device.netdev +
                                 " of MTU " + std::to_string(device.netdev_mtu) + ", path MTU " +
                                 std::to_string(device.path_mtu));
    for (const Gid& gid : device.gids) section.add("  GID " + std::to_string(gid.index), gid.address);
  }
  for (const std::string& other : facts.kernel_devices) section.add(other, "of another driver");
  if (facts.devices.empty()) section.add("nothing", facts.no_device_reason);
  return section.text();
}

std::string chosen_text(const Facts& facts) {
  Section section{"chosen"};
  for (const Opened& one : facts.probe.opened) {
    section.add(one.device,
                one.transferred ? "opened, and a WRITE to itself is done" : one.step + ": " + std::strerror(one.error));
    if (!one.receive.empty()) section.add("  receives by", one.receive + reason_of(one.receive_reason));
    if (!one.transmit.empty()) section.add("  sends by", one.transmit + reason_of(one.transmit_reason));
    if (one.receive_buffer != 0) {
      section.add("  receive buffer",
                  kib(one.receive_buffer) + ", batches merged (GRO): " + (one.receive_offload ? "yes" : "no"));
    }
  }
  const Configuration& configuration = facts.configuration;
  section.add("batches split (GSO)", facts.host.segmentation_offload ? "yes" : "no");
  section.add("recovery", configuration.recovery_mode);
  section.add("local data", configuration.local ? "fetched from memory" : "sent (transfer.local is false)");
  section.add("processors", std::to_string(facts.host.processors));
  return section.text();
}

std::string origin_text(const Facts& facts) {
  Section section{"from"};
  section.add("library", facts.library.path.empty() ? "not found" : facts.library.path);
  section.add("version", facts.library.version);
  section.add("brdmad", facts.daemon.answers
                            ? "running, version " + facts.daemon.version + ", user " + std::to_string(facts.daemon.uid)
                            : "none runs; a program would start " + facts.daemon.program);
  for (const Setting& setting : facts.configuration.settings) {
    if (setting.source == "default") continue;
    section.add(setting.key, setting.value + " (" + (setting.where.empty() ? setting.source : setting.where) + ")");
  }
  return section.text();
}

void add_direction(Section& section, const char* what, const Direction& way) {
  section.add(what, std::to_string(way.received) + " of " + std::to_string(way.sent) + " datagrams, " +
                        std::to_string(way.reordered) + " reordered; path MTU " +
                        (way.path_mtu > 0 ? std::to_string(way.path_mtu) : "unknown"));
  if (way.mbps > 0) {
    section.add("  bandwidth", decimal(way.mbps) + " Mbit/s by WRITE, " + decimal(way.tcp_mbps) + " Mbit/s by TCP");
  }
}

std::string peer_text(const Peer& peer) {
  Section section{"peer " + peer.address};
  if (!peer.version.empty()) section.add("version", peer.version);
  if (!peer.device.empty()) section.add("devices", peer.own_device + " here, " + peer.device + " there");
  if (peer.to_peer.sent > 0) add_direction(section, "to the peer", peer.to_peer);
  if (peer.from_peer.sent > 0) add_direction(section, "from the peer", peer.from_peer);
  if (!peer.mode.empty()) {
    section.add("queue pair", "mode " + peer.mode + ", receives by " + peer.receive + ", sends by " + peer.transmit +
                                  (peer.data.empty() ? "" : ", data " + peer.data));
  }
  if (peer.read_us > 0) {
    section.add("round trip", decimal(peer.read_us) + " us by READ, " + decimal(peer.tcp_us) + " us by TCP (medians)");
  }
  return section.text();
}

std::string program_text(const Program& program) {
  Section section{"program " + program.name};
  section.add("file", program.path.empty() ? "not found" : program.path);
  if (!program.interpreter.empty()) section.add("interpreter", program.interpreter);
  const bool loads = !program.path.empty() && !program.is_static && !program.other_machine && !program.changes_user &&
                     !program.has_capabilities;
  section.add("loads the library", loads ? "yes" : "no");
  return section.text();
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text = findings.empty() ? "findings: none\n" : "findings\n";
  for (const Finding& finding : findings) {
    text += std::string{"  "} + name(finding.severity) + " " + finding.key + ": " + finding.what +
            "\n    next: " + finding.next + "\n";
  }
  return text;
}

// Line by line, as line feeds are no printable characters.
std::string printable_lines(const std::string& text) {
  std::string out;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    out += printable(std::string_view{text}.substr(from, end - from)) + "\n";
    from = end + 1;
  }
  return out;
}

}  // namespace

Json report_json(const Facts& facts, const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back(
        {{"key", finding.key}, {"severity", name(finding.severity)}, {"what", finding.what}, {"next", finding.next}});
  }
  Json report{{"ok", !has_error(findings)},
              {"devices", devices_json(facts)},
              {"chosen", chosen_json(facts)},
              {"from", origin_json(facts)}};
  if (facts.program) report["program"] = program_json(*facts.program);
  if (facts.peer) report["peer"] = peer_json(*facts.peer);
  report["findings"] = std::move(list);
  return report;
}

std::string report_text(const Facts& facts, const std::vector<Finding>& findings) {
  std::string text = devices_text(facts) + chosen_text(facts) + origin_text(facts);
  if (facts.program) text += program_text(*facts.program);
  if (facts.peer) text += peer_text(*facts.peer);
  return printable_lines(text + findings_text(findings));
}

void print_report(const Facts& facts, const std::vector<Finding>& findings, const OutputStyle& style) {
  if (style.json) {
    print_json(report_json(facts, findings), style);
  } else {
    const std::string text = report_text(facts, findings);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    throw std::runtime_error(std::string{"standard output cannot be written: "} + std::strerror(errno));
  }
}

}  // namespace brdma::check
