// brdmad/shared_state.h - what outlives the worker: who holds which slot, and the statistics of leases that ended.
// Lies in memory that holder and worker share, and after them a daemon that goes on with it (vault.h): plain values, no
// pointers. Written by the worker only; a worker that dies between two writes leaves a state that the next one can
// read:
//   kFree -> kOffered   record is filled, its descriptors are on their way to the holder, the client waits
//   kOffered -> kLeased the answer was sent (a new worker repeats the answer of an offered slot)
//   kLeased -> kFree    statistics were added to the totals, the socket was drained
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gid_book.h"
#include "io/lease_protocol.h"
#include "trace/counters.h"

namespace brdma::daemon {

enum class SlotState : std::uint32_t { kFree, kOffered, kLeased };

struct SlotRecord {
  SlotState state = SlotState::kFree;
  bool has_owner = false;  // somebody leased it before: from then on it is only for that user, who may have kept
  std::uint32_t uid = 0;   // the socket in another process and could read what comes for the next holder
  std::uint32_t pid = 0;
  std::uint64_t lease_id = 0;
  std::uint64_t freed_at = 0;  // place in the order of endings; 0 = never leased
  std::int64_t since_unix_ns = 0;
  bool statistics_known = false;    // the client counts as we do
  std::uint64_t events_logged = 0;  // of this lease, by all workers
  std::array<char, 16> program{};
  std::array<char, 64> device{};
};

inline constexpr std::size_t kDevicesMax = 64;

struct DeviceTotals {
  std::array<char, 64> device{};
  Statistics ended;  // of leases that ended
};

// What was set at run time for a device, for the programs that start later: lines `key=value`.
struct DeviceSettings {
  std::array<char, 64> device{};
  std::array<char, io::kSettingsMax> text{};
};

// By which a daemon knows what another one left, and how it shall go on with it.
struct StateHeader {
  static constexpr std::uint64_t kMagic = 0x5453'444D'4152'4442;
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;  // of SharedState
  std::array<char, 32> version{};
  std::uint32_t dual_stack = 0;
  std::uint32_t idle_seconds = 0;
};

struct SharedState {
  StateHeader header;
  std::array<SlotRecord, io::kSlotCount> slots{};
  std::uint64_t lease_count = 0;   // ever; the last lease's id
  std::uint64_t ending_count = 0;  // ever
  std::uint64_t worker_starts = 0;
  std::uint64_t events_logged = 0;         // ever, by all workers; the last event's number
  std::uint64_t management_datagrams = 0;  // for QP 0 and 1
  std::uint64_t connections_refused = 0;   // there were too many, of this user or of all
  std::uint32_t device_count = 0;
  std::array<DeviceTotals, kDevicesMax> devices{};
  std::uint32_t settings_count = 0;
  std::array<DeviceSettings, kDevicesMax> settings{};
  GidRecords gids{};
};

// The free slot that `uid` may have whose last lease ended longest ago, so that late packets of a dead queue pair find
// nobody. None: all are leased or other users'.
[[nodiscard]] std::optional<std::uint32_t> choose_slot(const SharedState& state, std::uint32_t uid);

[[nodiscard]] std::uint32_t leases_in_use(const SharedState& state);

// Adds to the totals of `device`; devices beyond kDevicesMax share the last entry, named "(others)".
void add_ended(SharedState& state, std::string_view device, const Statistics& statistics);

// What is set for `device`, "" where nothing is. set_device_settings: false where there is no room.
[[nodiscard]] std::string_view device_settings(const SharedState& state, std::string_view device);
[[nodiscard]] bool set_device_settings(SharedState& state, std::string_view device, std::string_view text);

}  // namespace brdma::daemon
