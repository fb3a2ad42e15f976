#include "lease/lease_book.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "control/statistics.h"
#include "io/daemon/daemon_connection.h"
#include "io/system/pass_descriptors.h"
#include "process/unix_time.h"

namespace brdma::daemon {
namespace {

// One message; it fits the empty buffer of a connection without earlier messages, so it is never cut.
bool send_reply(int connection, const io::LeaseReply& reply, std::span<const int> descriptors) {
  const ConstBytes bytes{reinterpret_cast<const std::byte*>(&reply), sizeof reply};
  return io::send_with_descriptors(connection, bytes, descriptors, MSG_DONTWAIT) == static_cast<ssize_t>(sizeof reply);
}

constexpr int kDescriptorsSpare = 64;  // for connections with queries, and the daemon's own

ContextError no_slot(const SharedState& state) {
  const std::uint32_t used = leases_in_use(state);
  const std::string how_many =
      std::to_string(used) + " of " + std::to_string(io::kSlotCount - io::kFirstLeasableSlot) + " leases are in use";
  const auto free = [](const SlotRecord& record) { return record.state == SlotState::kFree; };
  if (state.slots_end > io::kFirstLeasableSlot &&
      std::any_of(state.slots.begin() + io::kFirstLeasableSlot, state.slots.begin() + state.slots_end, free))
    return {ENOSPC,
            how_many + " and the others belong to other users: end a program of your own, or have brdmad restarted"};
  return {ENOSPC, how_many + ": end programs that use a device ('brdma resource show ctx' lists them)"};
}

ContextError too_many_leases(std::uint32_t uid, std::uint32_t most) {
  return {ENOSPC, io::user_text(uid) + " has " + std::to_string(most) +
                      " leases, as many as one user may have: end programs that use a device ('brdma resource show "
                      "ctx' lists them), or have brdmad started with a larger --user-leases"};
}

ContextError no_descriptors() {
  return {EMFILE, "brdmad has as many open files as it may (" + std::to_string(file_limit()) +
                      ", three a lease): end programs, or raise the hard limit of who starts it (ulimit -Hn; "
                      "LimitNOFILE= of a service)"};
}

// unix(7): one limit bounds the descriptors that a user without CAP_SYS_RESOURCE has in flight in all sockets. The
// vault of each of the user's daemons is one of those sockets.
ContextError too_many_passed() {
  return {ETOOMANYREFS, "daemons of this user keep as many open files in sockets as brdmad may have (" +
                            std::to_string(file_limit()) +
                            "): end programs, or raise the hard limit of who starts it (ulimit -Hn)"};
}

// Programs may report any number.
std::uint64_t add_saturated(std::uint64_t a, std::uint64_t b) { return a + b < a ? ~std::uint64_t{0} : a + b; }

// Room for so many more? Descriptors are numbered from below: the newest number shows how many are open.
bool descriptors_left(int newest, std::uint32_t more) {
  return newest < 0 || static_cast<std::uint64_t>(newest) + more + kDescriptorsSpare <= file_limit();
}

}  // namespace

void refuse(int connection, const ContextError& reason) {
  io::LeaseReply reply;
  reply.error = reason.error;
  io::put_text(reply.message, reason.message);
  static_cast<void>(send_reply(connection, reply, {}));
}

// An empty line, which the program's library ignores, with a descriptor.
bool send_lifeline(int connection, int lifeline) {
  constexpr std::byte kEmptyLine{'\n'};
  return io::send_with_descriptors(connection, {&kEmptyLine, 1}, {&lifeline, 1}, MSG_DONTWAIT) == 1;
}

bool LeaseBook::answer(std::uint32_t slot, int connection) {
  io::LeaseReply reply;
  reply.slot = slot;
  reply.dual_stack = group_.dual_stack ? 1 : 0;
  reply.lease_id = state_.slots[slot].lease_id;
  io::put_text(reply.settings, device_settings(state_, io::get_text(state_.slots[slot].device)));
  std::vector<int> descriptors{group_.sockets[slot].get(), pages_[slot].fd(), tables_.at(table_owner(slot)).fd()};
  if (means_.lifeline >= 0) descriptors.push_back(means_.lifeline);
  // A process with the vault has everybody's sockets: only this user's own programs get it.
  const bool trusted = means_.one_user && state_.slots[slot].uid == ::geteuid();
  if (trusted && means_.lifeline >= 0 && means_.vault->valid()) descriptors.push_back(means_.vault->fd());
  return send_reply(connection, reply, descriptors);
}

// A previous daemon may have sent the first answer already. Then this one serves only to carry the lifeline.
bool LeaseBook::response_again(std::uint32_t slot, int connection) {
  return answer(slot, connection) && (means_.lifeline < 0 || send_lifeline(connection, means_.lifeline));
}

std::uint32_t LeaseBook::owner_of(std::uint32_t uid) const { return means_.one_user ? ::geteuid() : uid; }

// False on failure, with errno.
bool LeaseBook::make_table(std::uint32_t owner) {
  const auto [at, is_new] = tables_.try_emplace(owner);
  if (!is_new) return true;
  at->second = UseTableMapping::create();
  if (!at->second.valid() || !send_table(channel_, owner, at->second.fd())) {
    tables_.erase(at);
    return false;
  }
  if (means_.vault != nullptr && means_.vault->valid() && !means_.vault->add(VaultTable{owner, at->second.fd()}))
    rewrite_vault();
  return true;
}

void LeaseBook::forget_unused_table(std::uint32_t owner) {
  const auto end = state_.slots.begin() + state_.slots_end;
  const bool used = std::any_of(state_.slots.begin(), end, [&](const SlotRecord& record) {
    return brdma::daemon::has_lease(record) && owner_of(record.uid) == owner;
  });
  if (!used && tables_.erase(owner) > 0) static_cast<void>(send_no_table(channel_, owner));
}

DeviceUse::Sum LeaseBook::device_use(std::uint32_t slot) const {
  const std::uint32_t owner = table_owner(slot);
  const auto table = tables_.find(owner);
  DeviceUse::Sum sum;
  if (table == tables_.end()) return sum;
  for (std::uint32_t other = io::kFirstLeasableSlot; other < state_.slots_end; ++other) {
    const SlotRecord& record = state_.slots[other];
    if (!brdma::daemon::has_lease(record) || table_owner(other) != owner || record.device != state_.slots[slot].device)
      continue;
    const DeviceUse::Sum more = table->second.of(other);
    sum.queue_pairs = add_saturated(sum.queue_pairs, more.queue_pairs);
    sum.state_bytes = add_saturated(sum.state_bytes, more.state_bytes);
  }
  return sum;
}

void LeaseBook::keep(std::uint32_t slot) {
  if (means_.vault == nullptr || !means_.vault->valid()) return;
  if (!means_.vault->add({slot, state_.slots[slot].lease_id, connections_[slot], pages_[slot].fd()})) rewrite_vault();
}

void LeaseBook::rewrite_vault() {
  if (means_.vault == nullptr || !means_.vault->valid()) return;
  std::vector<VaultLease> leases;
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < state_.slots_end; ++slot) {
    if (connections_[slot] < 0) continue;
    leases.push_back({slot, state_.slots[slot].lease_id, connections_[slot], pages_[slot].fd()});
  }
  std::vector<VaultTable> tables;
  for (const auto& [owner, table] : tables_) tables.push_back({owner, table.fd()});
  const ContextError error = means_.vault->rewrite(
      {means_.listener, means_.state_memory, means_.connections_memory, &group_.sockets, means_.guard, &xdp_.all()},
      tables, leases);
  if (error.error != 0) spdlog::warn("if this daemon is killed, programs lose their device: {}", error.message);
}

bool LeaseBook::has_lease(std::uint32_t pid) const {
  return std::any_of(state_.slots.begin(), state_.slots.begin() + state_.slots_end,
                     [pid](const SlotRecord& record) { return brdma::daemon::has_lease(record) && record.pid == pid; });
}

// Taken from the connection: the record's number may belong to the process's own pid namespace.
LeaseBook::Holder LeaseBook::holder(std::uint32_t slot) const {
  const SlotRecord& record = state_.slots[slot];
  ucred peer{};
  socklen_t size = sizeof peer;
  if (record.state != SlotState::kLeased || connections_[slot] < 0 ||
      ::getsockopt(connections_[slot], SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) {
    return {};
  }
  return {static_cast<std::uint32_t>(peer.pid), Duration::from_ns(unix_ns() - record.since_unix_ns)};
}

void LeaseBook::end_all() {
  if (means_.vault != nullptr) means_.vault->clear();
  for (const int connection : connections_) {
    if (connection >= 0) ::shutdown(connection, SHUT_RDWR);
  }
}

// Adds sockets for the slots up to `slot` and one step more, as far as there is room before the slots without sockets.
ContextError LeaseBook::open_up_to(std::uint32_t slot) {
  std::uint32_t end = std::min(slot + kSlotsAStep, io::kSlotCount);
  for (const ExtraSlot& extra : extra_slots(state_)) end = std::min(end, extra.slot);
  if (end <= slot) return no_slot(state_);
  const std::size_t before = group_.sockets.size();
  if (ContextError error = grow(group_, end); error.error != 0) return error.error == EMFILE ? no_descriptors() : error;
  for (std::size_t i = before; i < group_.sockets.size(); ++i) {
    if (!send_socket(channel_, static_cast<std::uint32_t>(i), group_.sockets[i].get()))
      return {EPIPE, "brdmad is ending"};
  }
  if (ContextError error = steer_all(); error.error != 0) return error;
  rewrite_vault();
  return {};
}

ContextError LeaseBook::steer_all() {
  ContextError error = steer(group_, extra_slots(state_));
  if (error.error == 0) steered_ = static_cast<std::uint32_t>(group_.sockets.size());
  xdp_.steer_extra(state_);
  return error;
}

// For users with a quota: the rest is for others and for root.
std::optional<ContextError> LeaseBook::over_quota(const LeaseClient& client) const {
  if (leases_of(state_, client.uid) >= quotas_.leases) return too_many_leases(client.uid, quotas_.leases);
  if (!descriptors_left(client.connection, quotas_.descriptors_left)) return no_descriptors();
  return std::nullopt;
}

Result<std::uint32_t, ContextError> LeaseBook::slot_for(const LeaseClient& client) {
  if (!descriptors_left(client.connection, 1)) return no_descriptors();
  const bool limited = has_quota(client.uid, ::geteuid());
  SlotLimits limits = limited ? quotas_.slots() : SlotLimits{};
  if (limited) {
    if (auto error = over_quota(client)) return *error;
  }
  const auto slot = choose_slot(state_, client.uid, limits);
  if (!slot) return no_slot(state_);
  if (*slot < steered_) return *slot;
  const ContextError error =
      descriptors_left(client.connection, 2 * kSlotsAStep) ? open_up_to(*slot) : no_descriptors();
  if (error.error == 0) return *slot;
  limits.end = steered_;
  const auto resting = choose_slot(state_, client.uid, limits);  // a slot that has not rested long enough
  if (resting) return *resting;
  return error;
}

Result<std::uint32_t, ContextError> LeaseBook::grant(const LeaseClient& client, const io::LeaseRequest& request) {
  const auto refused = [&client](const ContextError& reason) {
    refuse(client.connection, reason);
    return reason;
  };
  const auto found = slot_for(client);
  if (!found) return refused(found.reason());
  const std::uint32_t slot = found.value();
  StatisticsMapping page = StatisticsMapping::create();
  if (!page.valid()) {
    return refused({errno, std::string("cannot make a statistics page: ") + std::strerror(errno)});
  }
  if (!make_table(owner_of(client.uid))) {
    if (errno == ETOOMANYREFS) return refused(too_many_passed());
    return refused({errno, std::string("cannot make a table of what programs use: ") + std::strerror(errno)});
  }
  pages_[slot] = std::move(page);

  SlotRecord& record = state_.slots[slot];
  state_.slots_end = std::max(state_.slots_end, slot + 1);
  record.has_owner = true;
  record.uid = client.uid;
  record.pid = client.pid != 0 ? client.pid : request.pid;
  record.lease_id = ++state_.lease_count;
  record.since_unix_ns = unix_ns();
  record.events_logged = 0;
  record.folded = false;
  record.xdp_ifindex = 0;
  record.statistics_known = request.statistics_layout == control::statistics_layout();
  io::put_text(record.program, io::get_text(request.program));
  io::put_text(record.device, io::get_text(request.device));
  tables_.at(table_owner(slot)).begin(slot, io::get_text(record.device));
  record.state = SlotState::kOffered;

  connections_[slot] = client.connection;
  keep(slot);
  const int socket_fd = group_.sockets[slot].get();
  set_leased_buffer(socket_fd);
  drain(socket_fd);
  const bool answered =
      send_keep(channel_, slot, client.connection, pages_[slot].fd()) && answer(slot, client.connection);
  const bool too_many = !answered && errno == ETOOMANYREFS;
  if (too_many) (void)refused(too_many_passed());  // before the connection is shut
  if (!answered) {
    end(slot);
    return too_many ? too_many_passed() : ContextError{EPIPE, "the client went away"};
  }
  record.state = SlotState::kLeased;
  return slot;
}

// The vault's copy keeps the program attached to the interface.
void LeaseBook::end(std::uint32_t slot) {
  finish(slot);
  if (state_.slots[slot].xdp_ifindex != 0 && xdp_.forget_unused(state_)) rewrite_vault();
}

void LeaseBook::finish(std::uint32_t slot) {
  SlotRecord& record = state_.slots[slot];
  if (record.statistics_known) fold_ended(state_, slot, pages_[slot].read());
  // The vault has a copy until it is rewritten: the peer would not notice a close().
  if (connections_[slot] >= 0) ::shutdown(std::exchange(connections_[slot], -1), SHUT_RDWR);
  pages_[slot] = {};
  if (const auto table = tables_.find(table_owner(slot)); table != tables_.end()) table->second.end(slot);
  take_back_extra(slot);
  set_idle(group_.sockets[slot].get());
  const std::uint32_t stale = drain(group_.sockets[slot].get());
  spdlog::info("lease {} of {} (pid {}) ends: slot {}, {} datagrams thrown away", record.lease_id,
               io::get_text(record.program), record.pid, slot, stale);
  record.freed_at = ++state_.ending_count;
  record.state = SlotState::kFree;
  static_cast<void>(send_release(channel_, slot));
  forget_unused_table(table_owner(slot));
}

// The lease is marked last: a worker that dies before leaves nothing behind.
bool LeaseBook::use_xdp(std::uint32_t slot, std::uint32_t ifindex, std::optional<XdpSteering> attached) {
  if (attached) {
    if (!xdp_.keep(ifindex, std::move(*attached))) return false;
    xdp_.steer_extra(state_);
    const bool has_vault = means_.vault != nullptr && means_.vault->valid();
    if (has_vault && !means_.vault->add(ifindex, xdp_.all().at(ifindex))) rewrite_vault();
  }
  xdp_.begin_use(ifindex);
  state_.slots[slot].xdp_ifindex = ifindex;
  return true;
}

void LeaseBook::take_back_extra(std::uint32_t lessee) {
  bool any = false;
  for (const ExtraSlot& extra : extra_slots(state_)) {
    if (extra.lessee != lessee) continue;
    state_.slots[extra.slot].freed_at = ++state_.ending_count;
    state_.slots[extra.slot].state = SlotState::kFree;
    any = true;
  }
  if (!any) return;
  if (const ContextError error = steer_all(); error.error != 0) spdlog::warn("{}", error.message);
}

bool LeaseBook::may_extend(std::uint32_t uid) const {
  std::uint32_t own = 0, of_all = 0;
  for (const ExtraSlot& extra : extra_slots(state_)) {
    const std::uint32_t owner = state_.slots[extra.lessee].uid;
    if (has_quota(owner, ::geteuid())) ++of_all;
    if (owner == uid) ++own;
  }
  return own < quotas_.extra_slots && of_all < quotas_.extra_slots_of_all;
}

Result<std::uint32_t, ContextError> LeaseBook::extend(std::uint32_t uid, const io::SlotRequest& request) {
  const bool leased = request.slot < state_.slots_end && state_.slots[request.slot].state == SlotState::kLeased;
  if (!leased || state_.slots[request.slot].lease_id != request.lease_id ||
      (uid != 0 && state_.slots[request.slot].uid != uid))
    return ContextError{EACCES, "only the owner of the lease gets queue pair numbers"};
  std::uint32_t has = 1;
  for (const ExtraSlot& extra : extra_slots(state_)) {
    if (extra.lessee != request.slot) continue;
    ++has;
    if (state_.slots[extra.slot].number == request.slots) return extra.slot;  // the previous answer was lost
  }
  if (request.slots != has) return ContextError{EINVAL, "the lease has " + std::to_string(has) + " slots"};
  if (has_quota(uid, ::geteuid()) && !may_extend(uid))
    return ContextError{ENOSPC, io::user_text(uid) +
                                    " has as many queue pair numbers as one user may have: end programs that use many "
                                    "queue pairs ('brdma resource' counts them)"};
  const auto slot = choose_extra_slot(state_, static_cast<std::uint32_t>(group_.sockets.size()));
  if (!slot)
    return ContextError{ENOSPC,
                        "all queue pair numbers of this network namespace are given out: end programs that use "
                        "many queue pairs ('brdma resource' counts them)"};
  SlotRecord& record = state_.slots[*slot];
  record.lease_id = request.lease_id;
  record.lessee = request.slot;
  record.number = request.slots;
  record.state = SlotState::kExtra;
  if (ContextError error = steer_all(); error.error != 0) {
    record.state = SlotState::kFree;
    xdp_.steer_extra(state_);
    return error;
  }
  spdlog::info("lease {} gets slot {} too, its {}th", request.lease_id, *slot, has + 1);
  return *slot;
}

// False: the slot has no lease, or its lease has just ended; else it continues with this connection.
bool LeaseBook::adopt_lease(std::uint32_t slot, KeptLease& lease) {
  SlotRecord& record = state_.slots[slot];
  if (!brdma::daemon::has_lease(record)) {
    if (lease.connection.valid()) static_cast<void>(send_release(channel_, slot));
    return false;
  }
  pages_[slot] = StatisticsMapping::adopt(std::move(lease.statistics));
  connections_[slot] = lease.connection.get();
  // Without a connection nobody waits: the worker died before it could hand the connection over.
  const bool lives = !record.folded && lease.connection.valid() && pages_[slot].valid() &&
                     tables_.contains(table_owner(slot)) &&
                     (record.state == SlotState::kLeased || response_again(slot, lease.connection.get()));
  if (!lives) {
    finish(slot);
    return false;
  }
  record.state = SlotState::kLeased;
  return true;
}

std::vector<LeaseBook::Adopted> LeaseBook::adopt(Kept& kept) {
  std::vector<Adopted> result;
  finish_folding(state_);
  xdp_.adopt(kept.steerings);
  for (auto& [owner, memory] : kept.tables) {
    UseTableMapping table = UseTableMapping::adopt(std::move(memory));
    if (table.valid()) tables_.emplace(owner, std::move(table));
  }
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < state_.slots_end; ++slot) {
    KeptLease lease = std::move(kept.leases[slot]);
    if (adopt_lease(slot, lease)) result.push_back({slot, std::move(lease.connection)});
  }
  for (const ExtraSlot& extra : extra_slots(state_)) {
    if (!brdma::daemon::has_lease(state_.slots[extra.lessee])) state_.slots[extra.slot].state = SlotState::kFree;
  }
  for (const auto& [owner, memory] : kept.tables) forget_unused_table(owner);
  static_cast<void>(xdp_.forget_unused(state_));
  if (const ContextError error = steer_all(); error.error != 0) spdlog::error("{}", error.message);
  rewrite_vault();
  return result;
}

}  // namespace brdma::daemon
