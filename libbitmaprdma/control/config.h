// control/config.h - settings: defaults, then /etc/bitmaprdma.toml, then the user's bitmaprdma.toml, then BRDMA_*
// variables; for each value where it came from. docs/configuration.md lists them all.
//
// Nothing throws. A bad value leaves the one below it in force and adds a sentence to `errors` that names the file and
// line or the variable and the allowed range. Set-user-ID programs ignore variables and the user's file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "control/alarms.h"
#include "control/xdp_mode.h"

namespace brdma::control {

// Where packets come by, and where they leave by.
enum class Datapath : std::uint8_t { kAuto, kUdp, kXdp };

inline constexpr std::uint32_t kShardsMax = 16;

struct DatapathConfig {
  Datapath receive = Datapath::kAuto;
  Datapath transmit = Datapath::kAuto;
  XdpMode xdp_mode = XdpMode::kAuto;
  std::uint32_t xdp_chunks = 1024;  // of 4096 bytes each, a power of two
  std::uint32_t shards = 1;         // of a device that a verbs program opens
};

struct Settings {
  RecoveryConfig recovery;
  TransferConfig transfer;
  AlarmThresholds alarms;
  DatapathConfig datapath;
  bool loopback_device = false;           // BRDMA_LO: show brdma_lo even where there are other devices
  bool kernel_rdma_cm = false;            // BRDMA_KERNEL_RDMA_CM: RDMA-CM is the kernel's, for its own devices
  std::uint8_t rdma_cm_ack_timeout = 19;  // BRDMA_RDMA_CM_ACK_TIMEOUT: of RDMA-CM's queue pairs, 4.096 us * 2^n
  std::uint32_t port_rate_mbps = 0;       // BRDMA_PORT_RATE_MBPS: what the port carries; 0: as its interface says
  std::optional<std::uint64_t> seed;      // BRDMA_SEED: keys and first PSNs repeat; none = from the kernel's generator
  std::string daemon_path;                // BRDMA_DAEMON: brdmad program; empty = look beside the library, then in PATH
  std::string controller_address;   // BRDMA_CONTROLLER: whom brdmad keeps a session with (docs/wan.md); empty: none
  std::string controller_key_file;  // BRDMA_CONTROLLER_KEY
  std::string controller_name;      // BRDMA_CONTROLLER_NAME: whose of the keys in that file; empty: it has one
  std::uint32_t idle_seconds = 10;  // BRDMA_IDLE_SECONDS: brdmad exits after so long without work; 0 = never
};

enum class SettingSource : std::uint8_t { kDefault, kSystemFile, kUserFile, kDevice, kEnvironment };
// "default", "system file", "user file", "device" (brdma recovery set), "environment"
[[nodiscard]] std::string_view name(SettingSource source);

struct SettingReport {
  std::string_view key;       // "recovery.window"
  std::string_view variable;  // "BRDMA_WINDOW"
  std::string value;          // as it would be written in the file, without quotes
  SettingSource source = SettingSource::kDefault;
  std::string where;         // "/etc/bitmaprdma.toml:3", "BRDMA_WINDOW", "" for a default
  std::string allowed;       // "1..64, power of two", "bitmap|standard|gobackn"
  std::string_view meaning;  // one line
};

struct LoadedSettings {
  Settings settings;
  std::vector<SettingReport> reports;  // every setting, in a fixed order
  std::vector<std::string> errors;     // sentences; empty = all was good
};

// Where to look; the default is what an application gets. Tests name their own.
struct SettingPlaces {
  std::string system_file;
  std::string user_file;                                                        // empty: none
  std::optional<std::string> (*variable)(const char* variable_name) = nullptr;  // nullptr: no environment
  std::string device = {};  // lines `key=value`: what was set at run time for the device (brdmad keeps it)
};
[[nodiscard]] SettingPlaces default_places();
[[nodiscard]] LoadedSettings load_settings(const SettingPlaces& places = default_places());

// For the library inside an application: the first error goes to standard error as one line, once per process.
// `device`: as SettingPlaces::device.
[[nodiscard]] Settings load_settings_or_warn(const std::string& device = {});

}  // namespace brdma::control
