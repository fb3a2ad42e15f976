// brdmad/lease_book.h - grants and ends leases: the one place that moves slots between their states.
//
// Order of a grant:  record, hand over to the holder, drain, answer, mark as leased.
// Order of an end:   add the statistics, drain, free the record, tell the holder.
// A worker may die between any two steps: adopt() of the next one puts things right.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bitmaprdma/context.h"
#include "handover.h"
#include "shared_state.h"
#include "socket_group.h"
#include "statistics_page.h"

namespace brdma::daemon {

struct LeaseClient {
  std::uint32_t uid = 0;
  std::uint32_t pid = 0;
  int connection = -1;
};

class LeaseBook {
 public:
  LeaseBook(SharedState& state, SocketGroup& group, UseTableMapping& use, int channel)
      : state_(state), group_(group), use_(use), channel_(channel) {}

  // Answers the request on client.connection. The slot, or why not (the refusal was sent too).
  [[nodiscard]] Result<std::uint32_t, ContextError> grant(const LeaseClient& client, const io::LeaseRequest& request);
  void end(std::uint32_t slot);

  // Takes over what an earlier worker left: the slots that live on, each with its connection.
  struct Adopted {
    std::uint32_t slot = 0;
    io::FileDescriptor connection;
  };
  [[nodiscard]] std::vector<Adopted> adopt(KeptLeases& kept);

  [[nodiscard]] const SharedState& state() const { return state_; }
  // The number of one more event of that lease (event_log.h).
  [[nodiscard]] std::uint64_t number_event(std::uint32_t slot) {
    ++state_.slots[slot].events_logged;
    return ++state_.events_logged;
  }
  // For the programs that lease `device` from now on. False: no room.
  [[nodiscard]] bool set_settings(std::string_view device, std::string_view text) {
    return set_device_settings(state_, device, text);
  }
  [[nodiscard]] Statistics statistics(std::uint32_t slot) const { return pages_[slot].read(); }
  [[nodiscard]] io::Gauges gauges(std::uint32_t slot) const { return pages_[slot].gauges(); }
  // What all programs of that lease's device have together.
  [[nodiscard]] DeviceUse::Sum device_use(std::uint32_t slot) const { return use_.of_device(slot); }
  std::uint64_t take_events(std::uint32_t slot, std::vector<trace::EventRecord>& records) {
    return pages_[slot].take_events(records);
  }

 private:
  bool answer(std::uint32_t slot, int connection);

  SharedState& state_;
  SocketGroup& group_;
  UseTableMapping& use_;
  int channel_;
  std::array<StatisticsMapping, io::kSlotCount> pages_;
};

// Sends an answer without descriptors. A client that does not take it gets none.
void refuse(int connection, const ContextError& reason);

}  // namespace brdma::daemon
