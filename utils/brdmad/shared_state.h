// brdmad/shared_state.h - what outlives the worker: who holds which slot, and the statistics of leases that ended.
// Lies in memory that holder and worker share, and after them a daemon that goes on with it (vault.h): plain values, no
// pointers. Written by the worker only; a worker that dies between two writes leaves a state that the next one can
// read:
//   kFree -> kOffered   record is filled, its descriptors are on their way to the holder, the client waits
//   kOffered -> kLeased the answer was sent (a new worker repeats the answer of an offered slot)
//   kLeased -> kFree    statistics were added to the totals (Folding), the socket was drained
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gid_book.h"
#include "io/daemon/lease_protocol.h"
#include "socket_group.h"
#include "trace/counters.h"

namespace brdma::daemon {

// kExtra: has no lease of its own, but gives its queue pair numbers to one of another slot, the lessee's.
enum class SlotState : std::uint32_t { kFree, kOffered, kLeased, kExtra };

struct SlotRecord {
  SlotState state = SlotState::kFree;
  bool has_owner = false;  // somebody leased it before: from then on it is only for that user, who may have kept
  std::uint32_t uid = 0;   // the socket in another process and could read what comes for the next holder
  std::uint32_t pid = 0;
  std::uint64_t lease_id = 0;
  std::uint32_t lessee = 0, number = 0;  // kExtra: whose, and its how many'th slot that is (the lease's own: 0)
  std::uint64_t freed_at = 0;            // place in the order of endings; 0 = never leased
  std::int64_t since_unix_ns = 0;
  bool statistics_known = false;    // the client counts as we do
  bool folded = false;              // it has ended: what it counted is in the totals
  std::uint32_t xdp_ifindex = 0;    // where it has an AF_XDP socket that receives; 0: nowhere
  std::uint64_t events_logged = 0;  // of this lease, by all workers
  std::array<char, 16> program{};
  std::array<char, 64> device{};
};

inline constexpr std::size_t kDevicesMax = 64;

struct DeviceTotals {
  std::array<char, 64> device{};
  Statistics ended;  // of leases that ended
};

// How the counters of a lease that ended get into the totals once, wherever a worker dies meanwhile: what the totals
// become is written down; with kReady it holds; then it is put in its place, which the next worker may do again.
enum class FoldingStage : std::uint32_t { kNone, kReady };
struct Folding {
  FoldingStage stage = FoldingStage::kNone;
  std::uint32_t slot = 0, device = 0;
  Statistics sum;
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

// Begins as zeroes but for the header; slots from slots_end on have never been touched.
struct SharedState {
  StateHeader header;
  std::uint32_t slots_end = 0;  // behind the last one that was ever leased
  std::array<SlotRecord, io::kSlotCount> slots{};
  std::uint64_t lease_count = 0;   // ever; the last lease's id
  std::uint64_t ending_count = 0;  // ever
  std::uint64_t worker_starts = 0;
  std::uint64_t events_logged = 0;         // ever, by all workers; the last event's number
  std::uint64_t management_datagrams = 0;  // for QP 0 and 1
  std::uint64_t connections_refused = 0;   // there were too many, of this user or of all
  std::uint32_t device_count = 0;
  std::array<DeviceTotals, kDevicesMax> devices{};
  Folding folding;
  std::uint32_t settings_count = 0;
  std::array<DeviceSettings, kDevicesMax> settings{};
  GidRecords gids{};
};

// A user's programs that come one after another go round so many slots and the others stay for other users; a slot
// rests that long, so that late packets of a dead queue pair find nobody.
inline constexpr std::uint32_t kRestingSlots = 64;
// Slots for kExtra: the last ones, and there is no socket for them.
inline constexpr std::uint32_t kExtraSlotsMax = 512;
inline constexpr std::uint32_t kExtraSlotsFirst = io::kSlotCount - kExtraSlotsMax;

struct SlotLimits {
  std::uint32_t end = io::kSlotCount;         // only slots below
  std::uint32_t owned_max = io::kSlotCount;   // as many may be the user's for good
  std::uint32_t unused_end = io::kSlotCount;  // never used ones from here on are for others
};

// For a lease of `uid`: where that user has kRestingSlots free, or none may be taken that nobody ever had, the one of
// the user's whose last lease ended longest ago; else one that nobody ever had. None: all are leased or other users'.
[[nodiscard]] std::optional<std::uint32_t> choose_slot(const SharedState& state, std::uint32_t uid,
                                                       const SlotLimits& limits = {});
// For more numbers: a free one from `first` on, among the last; that which was given back longest ago.
[[nodiscard]] std::optional<std::uint32_t> choose_extra_slot(const SharedState& state, std::uint32_t first);
// In the order of lessees and numbers.
[[nodiscard]] std::vector<ExtraSlot> extra_slots(const SharedState& state);
// Of each slot from kExtraSlotsFirst on the lessee; 0: the slot is nobody's, or has a lease of its own.
using Lessees = std::array<std::uint32_t, kExtraSlotsMax>;
[[nodiscard]] Lessees lessees(const SharedState& state);

[[nodiscard]] inline bool has_lease(const SlotRecord& record) {
  return record.state == SlotState::kOffered || record.state == SlotState::kLeased;
}
// The slot of the lease that has the numbers of `slot`.
[[nodiscard]] inline std::uint32_t lessee_of(const SharedState& state, std::uint32_t slot) {
  return state.slots[slot].state == SlotState::kExtra ? state.slots[slot].lessee : slot;
}
[[nodiscard]] std::uint32_t leases_in_use(const SharedState& state);
[[nodiscard]] std::uint32_t leases_of(const SharedState& state, std::uint32_t uid);

// Adds what the lease of that slot counted to the totals of its device, unless they have it already; devices beyond
// kDevicesMax share the last entry, named "(others)".
void fold_ended(SharedState& state, std::uint32_t slot, const Statistics& statistics);
// What a worker that died had begun.
void finish_folding(SharedState& state);

// What is set for `device`, "" where nothing is. set_device_settings: false where there is no room.
[[nodiscard]] std::string_view device_settings(const SharedState& state, std::string_view device);
[[nodiscard]] bool set_device_settings(SharedState& state, std::string_view device, std::string_view text);

}  // namespace brdma::daemon
