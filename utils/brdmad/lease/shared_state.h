// brdmad/lease/shared_state.h - state that outlives the worker: the owners of slots, and the statistics of ended
// leases. Lies in memory that holder and worker share, and later a daemon that adopts it (vault.h): plain values, no
// pointers. Only the worker writes; a worker that dies between two writes leaves a state that the next one can read:
//   kFree -> kOffered   record is filled, its descriptors are on their way to the holder, the client waits
//   kOffered -> kLeased the answer was sent (a new worker repeats the answer of an offered slot)
//   kLeased -> kFree    statistics were added to the totals (Folding), the socket was drained
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "io/daemon/lease_protocol.h"
#include "lease/gid_book.h"
#include "trace/counters.h"
#include "udp/socket_group.h"

namespace brdma::daemon {

// kExtra: has no lease of its own, but gives its queue pair numbers to the lease of another slot, the lessee.
enum class SlotState : std::uint32_t { kFree, kOffered, kLeased, kExtra };

struct SlotRecord {
  SlotState state = SlotState::kFree;
  bool has_owner = false;  // once leased, it is only for that user, who may have kept the socket
  std::uint32_t uid = 0;   // in another process and could read packets of the next holder
  std::uint32_t pid = 0;
  std::uint64_t lease_id = 0;
  std::uint32_t lessee = 0, number = 0;  // kExtra: the lessee, and the index among its slots (the lease's own: 0)
  std::uint64_t freed_at = 0;            // position in the order of endings; 0 = never leased
  std::int64_t since_unix_ns = 0;
  bool statistics_known = false;    // the client has the same counters
  bool folded = false;              // it has ended: its counters are in the totals
  std::uint32_t xdp_ifindex = 0;    // the interface of its receiving AF_XDP socket; 0: none
  std::uint64_t events_logged = 0;  // of this lease, by all workers
  std::array<char, 16> program{};
  std::array<char, 64> device{};
};

inline constexpr std::size_t kDevicesMax = 64;

struct DeviceTotals {
  std::array<char, 64> device{};
  Statistics ended;  // of leases that ended
};

// Adds the counters of an ended lease to the totals exactly once, even if a worker dies meanwhile: the new totals are
// written down; with kReady they are valid; then they are copied to their place, which the next worker may repeat.
enum class FoldingStage : std::uint32_t { kNone, kReady };
struct Folding {
  FoldingStage stage = FoldingStage::kNone;
  std::uint32_t slot = 0, device = 0;
  Statistics sum;
};

// Settings made at run time for a device, for programs that start later: lines `key=value`.
struct DeviceSettings {
  std::array<char, 64> device{};
  std::array<char, io::kSettingsMax> text{};
};

// Identifies the state of an earlier daemon, and its options.
struct StateHeader {
  static constexpr std::uint64_t kMagic = 0x5453'444D'4152'4442;
  std::uint64_t magic = kMagic;
  std::uint64_t bytes = 0;  // of SharedState
  std::array<char, 32> version{};
  std::uint32_t dual_stack = 0;
  std::uint32_t idle_seconds = 0;
};

// Zero at first except for the header; slots from slots_end on have never been touched.
struct SharedState {
  StateHeader header;
  std::uint32_t slots_end = 0;  // behind the last one that was ever leased
  std::array<SlotRecord, io::kSlotCount> slots{};
  std::uint64_t lease_count = 0;   // ever; the last lease's id
  std::uint64_t ending_count = 0;  // ever
  std::uint64_t worker_starts = 0;
  std::uint64_t events_logged = 0;         // ever, by all workers; the last event's number
  std::uint64_t management_datagrams = 0;  // for QP 0 and 1
  std::uint64_t connections_refused = 0;   // over the limit of one user or of all
  std::uint32_t device_count = 0;
  std::array<DeviceTotals, kDevicesMax> devices{};
  Folding folding;
  std::uint32_t settings_count = 0;
  std::array<DeviceSettings, kDevicesMax> settings{};
  GidRecords gids{};
};

// Programs of a user that come one after another rotate through so many slots; the others stay free for other users. A
// slot rests meanwhile, so that late packets of a dead queue pair find nobody.
inline constexpr std::uint32_t kRestingSlots = 64;
// Slots for kExtra: the last ones; there are no sockets for them.
inline constexpr std::uint32_t kExtraSlotsMax = 512;
inline constexpr std::uint32_t kExtraSlotsFirst = io::kSlotCount - kExtraSlotsMax;

struct SlotLimits {
  std::uint32_t end = io::kSlotCount;         // only slots below
  std::uint32_t owned_max = io::kSlotCount;   // a user may keep at most so many for good
  std::uint32_t unused_end = io::kSlotCount;  // unused ones from here on are reserved for others
};

// A slot for a lease of `uid`. Takes the user's slot that has been free longest, if the user has kRestingSlots free or
// no unused slot may be taken; else an unused one. None: all are leased or other users'.
[[nodiscard]] std::optional<std::uint32_t> choose_slot(const SharedState& state, std::uint32_t uid,
                                                       const SlotLimits& limits = {});
// A slot for more numbers: a free one from `first` on, among the last; the one that was given back longest ago.
[[nodiscard]] std::optional<std::uint32_t> choose_extra_slot(const SharedState& state, std::uint32_t first);
// In the order of lessees and numbers.
[[nodiscard]] std::vector<ExtraSlot> extra_slots(const SharedState& state);
// By slot from kExtraSlotsFirst on, its lessee; 0: the slot is free, or has a lease of its own.
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

// Adds the counters of that slot's lease to the totals of its device, unless they have them already; devices beyond
// kDevicesMax share the last entry, named "(others)".
void fold_ended(SharedState& state, std::uint32_t slot, const Statistics& statistics);
// Completes the folding that a dead worker had begun.
void finish_folding(SharedState& state);

// The settings for `device`, "" if none. set_device_settings: false if there is no room.
[[nodiscard]] std::string_view device_settings(const SharedState& state, std::string_view device);
[[nodiscard]] bool set_device_settings(SharedState& state, std::string_view device, std::string_view text);

}  // namespace brdma::daemon
