// Facts about devices, brdmad, settings and the library.

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bitmaprdma/context.h"
#include "check/collect/collect.h"
#include "control/config.h"
#include "control/definitions.h"
#include "device_files/kernel_devices.h"
#include "io/daemon/daemon_client.h"
#include "io/daemon/daemon_start.h"
#include "io/daemon/lease_protocol.h"
#include "io/netdev/netdev.h"
#include "programs.h"

extern char** environ;

namespace brdma::check {
namespace {

std::string address_text(const IpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  const bool is_v4 = std::equal(kMapped.begin(), kMapped.end(), address.bytes.begin());
  ::inet_ntop(is_v4 ? AF_INET : AF_INET6, address.bytes.data() + (is_v4 ? kMapped.size() : 0), text.data(),
              text.size());
  return text.data();
}

Device device_of(const DeviceInfo& info) {
  Device device{info.name,
                info.netdev,
                info.netdev_mtu,
                static_cast<std::uint32_t>(mtu_bytes(info.active_mtu)),
                info.speed_mbps,
                info.active,
                {}};
  for (std::size_t i = 0; i < info.gids.size(); ++i) {
    const IpAddress& address = info.gids[i].address;
    if (!address.is_zero()) device.gids.push_back({static_cast<int>(i), address_text(address)});
  }
  return device;
}

// A member of brdmad's answer; a default where it is missing or of another type.
template <class T>
T member(const nlohmann::ordered_json& answer, const char* key, T otherwise) {
  const auto found = answer.find(key);
  if (found == answer.end() || found->type() == nlohmann::json::value_t::null) return otherwise;
  try {
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    return otherwise;
  }
}

constexpr std::array<std::string_view, 9> kOtherVariables{"NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX",     "MC_GID_INDEX",
                                                          "GLOO_IBV_INDEX",    "NVSHMEM_IB_GID_INDEX", "NCCL_IB_HCA",
                                                          "UCX_NET_DEVICES",   "NVSHMEM_HCA_LIST",     "MC_FORCE_HCA"};

void take_variable(Configuration& configuration, std::string_view entry) {
  const std::size_t equals = entry.find('=');
  if (equals == std::string_view::npos) return;
  const std::string_view name = entry.substr(0, equals);
  Variable variable{std::string{name}, std::string{entry.substr(equals + 1)}};
  if (name.starts_with("BRDMA_")) {
    configuration.own.push_back(std::move(variable));
  } else if (std::ranges::find(kOtherVariables, name) != kOtherVariables.end()) {
    configuration.others.push_back(std::move(variable));
  }
}

std::string value_of(const Configuration& configuration, std::string_view key) {
  const auto found =
      std::ranges::find_if(configuration.settings, [key](const Setting& setting) { return setting.key == key; });
  return found == configuration.settings.end() ? std::string{} : found->value;
}

}  // namespace

void collect_devices(Facts& facts) {
  for (const DeviceInfo& info : list_devices()) facts.devices.push_back(device_of(info));
  if (facts.devices.empty()) facts.no_device_reason = io::no_device_reason();
  constexpr std::string_view kList = "sys/class/infiniband/";
  for (const auto& entry : preload::kernel_devices()) {
    if (entry.path.starts_with(kList)) facts.kernel_devices.push_back(entry.path.substr(kList.size()));
  }
}

void collect_daemon(Daemon& daemon) {
  daemon.own_lease_protocol = io::kLeaseVersion;
  const auto program = io::find_daemon(control::load_settings().settings.daemon_path);
  (program.ok() ? daemon.program : daemon.program_error) = program.ok() ? program.value() : program.reason().message;
  const auto answer = io::query_daemon({{"query", "version"}});
  if (!answer.ok()) {
    daemon.error = answer.reason().error;
    daemon.message = answer.reason().message;
    return;
  }
  daemon.lease_protocol = member<std::uint32_t>(answer.value(), "lease_protocol", 0);
  daemon.version = member<std::string>(answer.value(), "version", "");
  daemon.uid = member<std::int64_t>(answer.value(), "uid", -1);
  daemon.serves_all_users = member<bool>(answer.value(), "system", false);
  daemon.answers = !daemon.version.empty();
  if (!daemon.answers) {
    daemon.error = EPROTO;
    daemon.message = "its answer names no version";
  }
}

void collect_configuration(Configuration& configuration) {
  const control::LoadedSettings loaded = control::load_settings();
  configuration.errors = loaded.errors;
  for (const control::SettingReport& report : loaded.reports) {
    configuration.settings.push_back(
        {std::string{report.key}, report.value, std::string{control::name(report.source)}, report.where});
    configuration.known_variables.emplace_back(report.variable);
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) take_variable(configuration, *entry);
  configuration.recovery_mode = value_of(configuration, "recovery.mode");
  configuration.datapath_receive = value_of(configuration, "datapath.receive");
  configuration.datapath_transmit = value_of(configuration, "datapath.transmit");
  configuration.local = loaded.settings.transfer.local;
}

void collect_library(Library& library) {
  library.version = BRDMA_VERSION;
  library.brdma = own_program();
  try {
    library.path = find_library();
  } catch (const ProgramMissing& reason) {
    library.error = reason.what();
  }
}

}  // namespace brdma::check
