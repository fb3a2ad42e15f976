// brdmad/lease/lease_book.h - grants and ends leases: the only code that moves slots between their states.
//
// Order of a grant:  record, table, put into the vault, hand over to the holder, drain, answer, mark as leased.
// Order of an end:   add the statistics, drain, free the record, notify the holder.
// Sockets are added to the group when all slots have been leased. Slots for more queue pair numbers (kExtra) are added
// when a lease's own numbers are used up: first the record, then the steering filter and its followers, then the
// answer. A worker may die between any two steps, its holder with it: adopt() of the next one repairs the state.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmaprdma/context.h"
#include "lease/shared_state.h"
#include "lease/statistics_page.h"
#include "lease/use_tables.h"
#include "supervisor/handover.h"
#include "supervisor/vault.h"
#include "udp/socket_group.h"
#include "worker/quotas.h"
#include "xdp/xdp_book.h"

namespace brdma::daemon {

struct LeaseClient {
  std::uint32_t uid = 0;
  std::uint32_t pid = 0;
  int connection = -1;
};

// Lets leases outlive this daemon.
struct SurvivalMeans {
  Vault* vault = nullptr;
  int lifeline = -1;  // each program gets it
  int listener = -1, state_memory = -1, connections_memory = -1;
  const std::vector<io::FileDescriptor>* guard = nullptr;  // socket_guard.h
  bool one_user = false;  // of the daemon: its programs get the vault, and one table of use together
};

class LeaseBook {
 public:
  LeaseBook(SharedState& state, SocketGroup& group, int channel, SurvivalMeans means = {}, const Quotas& quotas = {})
      : state_(state),
        group_(group),
        channel_(channel),
        means_(means),
        xdp_(channel),
        quotas_(quotas),
        steered_(static_cast<std::uint32_t>(group.sockets.size())) {
    connections_.fill(-1);
  }

  // Answers the request on client.connection. The slot, or the reason of a refusal (which was sent, too).
  [[nodiscard]] Result<std::uint32_t, ContextError> grant(const LeaseClient& client, const io::LeaseRequest& request);
  void end(std::uint32_t slot);
  // One more slot for a lease whose numbers are used up. The error is for the process.
  [[nodiscard]] Result<std::uint32_t, ContextError> extend(std::uint32_t uid, const io::SlotRequest& request);
  // The daemon is stopped: every program sees its connection close, and none adopts the rest.
  void end_all();

  // Takes over the state of an earlier worker: the slots with a live lease, each with its connection.
  struct Adopted {
    std::uint32_t slot = 0;
    io::FileDescriptor connection;
  };
  [[nodiscard]] std::vector<Adopted> adopt(Kept& kept);

  // The steering to AF_XDP sockets of that interface; null: none.
  [[nodiscard]] const XdpSteering* xdp_steering(std::uint32_t ifindex) const { return xdp_.find(ifindex); }
  [[nodiscard]] std::uint32_t leaving_xdp(std::uint32_t ifindex) const { return xdp_.leaving(ifindex); }
  // Gives that lease such a socket; stores `attached` if the interface had no steering. False: the daemon is ending.
  [[nodiscard]] bool use_xdp(std::uint32_t slot, std::uint32_t ifindex, std::optional<XdpSteering> attached);

  [[nodiscard]] bool has_one_user() const { return means_.one_user; }
  [[nodiscard]] bool has_lease(std::uint32_t pid) const;
  // For a leased slot: the process that connected for it, as seen from here, and its age. 0: no lease, or the process
  // is in a pid namespace that is not visible from here.
  struct Holder {
    std::uint32_t pid = 0;
    Duration age;
  };
  [[nodiscard]] Holder holder(std::uint32_t slot) const;
  [[nodiscard]] const SharedState& state() const { return state_; }
  // The number of one more event of that lease (event_log.h).
  [[nodiscard]] std::uint64_t number_event(std::uint32_t slot) {
    ++state_.slots[slot].events_logged;
    return ++state_.events_logged;
  }
  // Applies to programs that lease `device` from now on. False: no room.
  [[nodiscard]] bool set_settings(std::string_view device, std::string_view text) {
    return set_device_settings(state_, device, text);
  }
  [[nodiscard]] Statistics statistics(std::uint32_t slot) const { return pages_[slot].read(); }
  [[nodiscard]] io::Gauges gauges(std::uint32_t slot) const { return pages_[slot].gauges(); }
  // The user whose programs share limits with that lease.
  [[nodiscard]] std::uint32_t table_owner(std::uint32_t slot) const { return owner_of(state_.slots[slot].uid); }
  // Use of all programs with the same device and table. Costs time in proportion to the leases.
  [[nodiscard]] DeviceUse::Sum device_use(std::uint32_t slot) const;
  std::uint64_t take_events(std::uint32_t slot, std::vector<trace::EventRecord>& records) {
    return pages_[slot].take_events(records);
  }

 private:
  void finish(std::uint32_t slot);
  bool answer(std::uint32_t slot, int connection);
  bool response_again(std::uint32_t slot, int connection);
  [[nodiscard]] std::uint32_t owner_of(std::uint32_t uid) const;
  [[nodiscard]] bool make_table(std::uint32_t owner);
  void forget_unused_table(std::uint32_t owner);
  void keep(std::uint32_t slot);
  void rewrite_vault();
  [[nodiscard]] Result<std::uint32_t, ContextError> slot_for(const LeaseClient& client);
  [[nodiscard]] std::optional<ContextError> over_quota(const LeaseClient& client) const;
  [[nodiscard]] bool may_extend(std::uint32_t uid) const;
  [[nodiscard]] ContextError open_up_to(std::uint32_t slot);
  ContextError steer_all();
  [[nodiscard]] bool adopt_lease(std::uint32_t slot, KeptLease& lease);
  void take_back_extra(std::uint32_t lessee);

  SharedState& state_;
  SocketGroup& group_;
  int channel_;
  SurvivalMeans means_;
  XdpBook xdp_;
  Quotas quotas_;
  std::uint32_t steered_;                        // sockets that the filter knows
  std::array<int, io::kSlotCount> connections_;  // by lease, its session's; -1: none
  std::array<StatisticsMapping, io::kSlotCount> pages_;
  std::map<std::uint32_t, UseTableMapping> tables_;  // by owner with a lease
};

// Gives a program the lifeline of the daemon that has its lease now. False: errno; EAGAIN: the program does not read.
bool send_lifeline(int connection, int lifeline);

// Sends an answer without descriptors. A client that does not read gets none.
void refuse(int connection, const ContextError& reason);

}  // namespace brdma::daemon
