#include "lease/shared_state.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "control/statistics.h"

namespace brdma::daemon {
namespace {

// Writes of a killed process are visible in the order of its instructions: the compiler must keep that order.
void in_this_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// The entry of that device's totals; a new one if it has none.
std::uint32_t totals_of(SharedState& state, std::string_view device) {
  const auto end = state.devices.begin() + state.device_count;
  const auto found = std::find_if(state.devices.begin(), end,
                                  [&](const DeviceTotals& totals) { return io::get_text(totals.device) == device; });
  const auto at = static_cast<std::uint32_t>(found - state.devices.begin());
  if (found != end) return at;
  if (at >= kDevicesMax - 1) {
    io::put_text(state.devices.back().device, "(others)");
    in_this_order();
    state.device_count = kDevicesMax;
    return kDevicesMax - 1;
  }
  io::put_text(state.devices[at].device, device);
  in_this_order();
  state.device_count = at + 1;
  return at;
}

// A user's slots.
struct OwnSlots {
  std::uint32_t count = 0, resting = 0;  // all of them; free ones
  std::optional<std::uint32_t> longest;  // of the free ones, the one that has been free longest
};
OwnSlots own_slots(const SharedState& state, std::uint32_t uid, std::uint32_t end) {
  OwnSlots own;
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < end; ++slot) {
    const SlotRecord& record = state.slots[slot];
    if (!record.has_owner || record.uid != uid) continue;
    ++own.count;
    if (record.state != SlotState::kFree) continue;
    ++own.resting;
    if (!own.longest || record.freed_at < state.slots[*own.longest].freed_at) own.longest = slot;
  }
  return own;
}

// The first slot without an owner; those from `touched` on have none.
std::optional<std::uint32_t> unused_slot(const SharedState& state, std::uint32_t touched, const SlotLimits& limits) {
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < std::min(touched, limits.unused_end); ++slot) {
    const SlotRecord& record = state.slots[slot];
    if (record.state == SlotState::kFree && !record.has_owner) return slot;
  }
  if (touched < std::min(limits.end, limits.unused_end)) return touched;
  return std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> choose_slot(const SharedState& state, std::uint32_t uid, const SlotLimits& limits) {
  const std::uint32_t touched = std::max(std::min(state.slots_end, limits.end), io::kFirstLeasableSlot);
  const OwnSlots own = own_slots(state, uid, touched);
  std::optional<std::uint32_t> unused;
  if (own.count < limits.owned_max) unused = unused_slot(state, touched, limits);
  return own.longest && (own.resting >= kRestingSlots || !unused) ? own.longest : unused;
}

std::optional<std::uint32_t> choose_extra_slot(const SharedState& state, std::uint32_t first) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t slot = io::kSlotCount; slot-- > std::max(first, kExtraSlotsFirst);) {
    const SlotRecord& record = state.slots[slot];
    if (record.state != SlotState::kFree) continue;
    if (!best || record.freed_at < state.slots[*best].freed_at) best = slot;
  }
  return best;
}

std::vector<ExtraSlot> extra_slots(const SharedState& state) {
  std::vector<ExtraSlot> extra;
  for (std::uint32_t slot = kExtraSlotsFirst; slot < io::kSlotCount; ++slot) {
    if (state.slots[slot].state == SlotState::kExtra) extra.push_back({slot, state.slots[slot].lessee});
  }
  std::ranges::sort(extra, {}, [&state](const ExtraSlot& each) {
    return std::pair{each.lessee, state.slots[each.slot].number};
  });
  return extra;
}

Lessees lessees(const SharedState& state) {
  Lessees result{};
  for (const ExtraSlot& extra : extra_slots(state)) result[extra.slot - kExtraSlotsFirst] = extra.lessee;
  return result;
}

std::uint32_t leases_in_use(const SharedState& state) {
  const auto end = state.slots.begin() + state.slots_end;
  return static_cast<std::uint32_t>(std::count_if(state.slots.begin(), end, has_lease));
}

std::uint32_t leases_of(const SharedState& state, std::uint32_t uid) {
  const auto end = state.slots.begin() + state.slots_end;
  return static_cast<std::uint32_t>(std::count_if(
      state.slots.begin(), end, [uid](const SlotRecord& record) { return has_lease(record) && record.uid == uid; }));
}

void fold_ended(SharedState& state, std::uint32_t slot, const Statistics& statistics) {
  finish_folding(state);
  if (state.slots[slot].folded) return;
  Folding& folding = state.folding;
  folding.slot = slot;
  folding.device = totals_of(state, io::get_text(state.slots[slot].device));
  folding.sum = state.devices[folding.device].ended;
  control::accumulate(folding.sum, statistics);
  in_this_order();
  folding.stage = FoldingStage::kReady;
  in_this_order();
  finish_folding(state);
}

void finish_folding(SharedState& state) {
  Folding& folding = state.folding;
  if (folding.stage != FoldingStage::kReady) return;
  state.devices[folding.device].ended = folding.sum;
  state.slots[folding.slot].folded = true;
  in_this_order();
  folding.stage = FoldingStage::kNone;
  in_this_order();
}

std::string_view device_settings(const SharedState& state, std::string_view device) {
  for (std::size_t i = 0; i < state.settings_count; ++i) {
    if (io::get_text(state.settings[i].device) == device) return io::get_text(state.settings[i].text);
  }
  return {};
}

bool set_device_settings(SharedState& state, std::string_view device, std::string_view text) {
  if (text.size() >= io::kSettingsMax) return false;
  std::size_t at = 0;
  while (at < state.settings_count && io::get_text(state.settings[at].device) != device) ++at;
  if (at == kDevicesMax) return false;
  io::put_text(state.settings[at].text, text);
  io::put_text(state.settings[at].device, device);
  state.settings_count = std::max(state.settings_count, static_cast<std::uint32_t>(at + 1));
  return true;
}

}  // namespace brdma::daemon
