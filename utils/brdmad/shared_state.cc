#include "shared_state.h"

#include <algorithm>

#include "control/statistics.h"

namespace brdma::daemon {

std::optional<std::uint32_t> choose_slot(const SharedState& state, std::uint32_t uid) {
  std::optional<std::uint32_t> best;
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < io::kSlotCount; ++slot) {
    const SlotRecord& record = state.slots[slot];
    if (record.state != SlotState::kFree || (record.has_owner && record.uid != uid)) continue;
    if (!best || record.freed_at < state.slots[*best].freed_at) best = slot;
  }
  return best;
}

std::uint32_t leases_in_use(const SharedState& state) {
  return static_cast<std::uint32_t>(std::count_if(state.slots.begin(), state.slots.end(), [](const SlotRecord& record) {
    return record.state != SlotState::kFree;
  }));
}

void add_ended(SharedState& state, std::string_view device, const Statistics& statistics) {
  const auto end = state.devices.begin() + state.device_count;
  auto found = std::find_if(state.devices.begin(), end,
                            [&](const DeviceTotals& totals) { return io::get_text(totals.device) == device; });
  if (found == end) {
    const bool last = state.device_count >= kDevicesMax - 1;
    found = state.devices.begin() + (last ? kDevicesMax - 1 : state.device_count);
    io::put_text(found->device, last ? "(others)" : device);
    state.device_count = last ? kDevicesMax : state.device_count + 1;
  }
  control::accumulate(found->ended, statistics);
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
