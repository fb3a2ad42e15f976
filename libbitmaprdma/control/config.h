// control/config.h - settings: defaults, then /etc/bitmaprdma.toml, then the user's bitmaprdma.toml, then BRDMA_*
// variables; with the source of each value. docs/reference/configuration.md lists them all.
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

// Socket type for receiving, and for sending.
enum class Datapath : std::uint8_t { kAuto, kUdp, kXdp };

inline constexpr std::uint32_t kShardsMax = 16;

struct DatapathConfig {
  Datapath receive = Datapath::kAuto;
  Datapath transmit = Datapath::kAuto;
  XdpMode xdp_mode = XdpMode::kAuto;
  std::uint32_t xdp_chunks = 1024;  // of 4096 bytes each, a power of two
  std::uint32_t shards = 1;         // of a device that a verbs program opens
  Duration poll_stay_max = 50_us;   // of a poll, after it has a completion or has found nothing (io/poll/poll_policy.h)
};

struct Settings {
  RecoveryConfig recovery;
  TransferConfig transfer;
  AlarmThresholds alarms;
  DatapathConfig datapath;
  bool loopback_device = false;           // BRDMA_LO: show brdma_lo even where there are other devices
  bool kernel_rdma_cm = false;            // BRDMA_KERNEL_RDMA_CM: the kernel's RDMA-CM serves its own devices
  bool kernel_devices = true;             // BRDMA_KERNEL_DEVICES: the kernel's own devices are shown beside ours
  std::uint8_t rdma_cm_ack_timeout = 19;  // BRDMA_RDMA_CM_ACK_TIMEOUT: for RDMA-CM's queue pairs, 4.096 us * 2^n
  std::uint32_t port_rate_mbps = 0;       // BRDMA_PORT_RATE_MBPS: rate of the port; 0: its interface's
  std::optional<std::uint64_t> seed;      // BRDMA_SEED: keys and first PSNs repeat; none = from the kernel's generator
  std::string daemon_path;                // BRDMA_DAEMON: brdmad program; empty = look beside the library, then in PATH
  std::string
      controller_address;  // BRDMA_CONTROLLER: brdmad keeps a session with it (docs/explanation/wan.md); empty: none
  std::string controller_key_file;  // BRDMA_CONTROLLER_KEY
  std::string controller_name;      // BRDMA_CONTROLLER_NAME: name of this host's key in that file; empty: it has one
  std::string metrics_listen;       // BRDMA_METRICS_LISTEN: where `brdma metrics serve` answers; empty: nowhere
  std::uint32_t idle_seconds = 10;  // BRDMA_IDLE_SECONDS: time without work after which brdmad exits; 0 = never
};

enum class SettingSource : std::uint8_t { kDefault, kSystemFile, kUserFile, kDevice, kEnvironment };
// "default", "system file", "user file", "device" (brdma recovery set), "environment"
[[nodiscard]] std::string_view name(SettingSource source);

struct SettingReport {
  std::string_view key;       // "recovery.window"
  std::string_view variable;  // "BRDMA_WINDOW"
  std::string value;          // as written in the file, without quotes
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

// Sources of settings; the default is an application's. Tests name their own.
struct SettingPlaces {
  std::string system_file;
  std::string user_file;                                                        // empty: none
  std::optional<std::string> (*variable)(const char* variable_name) = nullptr;  // nullptr: no environment
  std::string device = {};  // lines `key=value`: set at run time for the device (brdmad keeps them)
};
[[nodiscard]] SettingPlaces default_places();
[[nodiscard]] LoadedSettings load_settings(const SettingPlaces& places = default_places());

// For the library inside an application: the first error, or unknown BRDMA_ variable (unknown_words.h), goes to
// standard error as one line, once per process. `device`: as SettingPlaces::device.
[[nodiscard]] Settings load_settings_or_warn(const std::string& device = {});

}  // namespace brdma::control
