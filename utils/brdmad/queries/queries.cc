#include "queries/queries.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>

#include "base/datagram.h"
#include "control/json_text.h"
#include "control/report.h"
#include "control/statistics.h"
#include "io/daemon/daemon_connection.h"

namespace brdma::daemon {
namespace {

Json version(const QueryContext& context) {
  return {{"version", BRDMA_VERSION},
          {"lease_protocol", io::kLeaseVersion},
          {"pid", ::getppid()},
          {"worker_pid", ::getpid()},
          {"worker_starts", context.book.state().worker_starts},
          {"uid", ::geteuid()},
          {"system", context.options.system}};
}

Json config(const QueryContext& context) {
  return {{"udp_port", kRoceUdpPort},
          {"slots", io::kSlotCount},
          {"dual_stack", context.dual_stack},
          {"system", context.options.system},
          {"users_kept_apart", context.options.system && !context.options.users_trust},
          {"idle_seconds", context.options.idle_seconds}};
}

// Calls f(slot, record) for each lease.
template <class F>
void for_each_lease(const SharedState& state, F f) {
  for (std::uint32_t slot = 0; slot < state.slots_end; ++slot) {
    if (has_lease(state.slots[slot])) f(slot, state.slots[slot]);
  }
}

Json leases(const QueryContext& context) {
  Json list = Json::array();
  for_each_lease(context.book.state(),
                 [&](std::uint32_t slot, const SlotRecord& record) { list.push_back(lease_json(slot, record)); });
  return {{"leases", std::move(list)}};
}

const char* name_of(wire::PortSpace space) {
  switch (space) {
    case wire::PortSpace::kUdp:
      return "UDP";
    case wire::PortSpace::kIb:
      return "IB";
    case wire::PortSpace::kIpoib:
      return "IPOIB";
    default:
      return "TCP";
  }
}

// RDMA-CM's identifiers that have a port. Names as in rdma(8).
Json cm_ids(const QueryContext& context) {
  Json list = Json::array();
  for (const PortTable::Entry& entry : context.management.ports().entries()) {
    const ManagementPort::Process& process = context.management.process(entry.owner);
    list.push_back({{"ps", name_of(entry.claim.space)},
                    {"state", entry.listening ? "LISTEN" : "BOUND"},
                    {"pid", process.pid},
                    {"comm", process.program},
                    {"src-addr", control::address_text(entry.claim.address)},
                    {"src-port", entry.claim.port}});
  }
  return {{"cm_ids", std::move(list)}};
}

Json icmp(const IcmpIntake& intake) {
  const IcmpCounters& counters = intake.counters();
  return {{"heard", intake.fd() >= 0},  {"received", counters.received}, {"handed", counters.handed},
          {"bad", counters.bad},        {"for_nobody", counters.nobody}, {"unread", counters.unread},
          {"limited", counters.limited}};
}

Json controller(const ControllerLink* link) {
  if (link == nullptr) return nullptr;
  const ControllerCounters& counters = link->counters();
  return {{"address", link->address()},
          {"connected", link->connected()},
          {"id", link->id()},
          {"sessions", counters.sessions},
          {"passive_sent", counters.passive_sent},
          {"passive_stale", counters.passive_stale},
          {"passive_bad", counters.passive_bad},
          {"control_packets", counters.control_packets},
          {"control_handed", counters.control_handed},
          {"control_unread", counters.control_unread}};
}

Json connection_counters(const cm::Counters& counters) {
  Json named = Json::object();
  for (const cm::NamedCounter& counter : cm::kCounters) named[counter.name] = counters.*counter.value;
  return named;
}

// Counters of the programs' connection managers.
Json connections(const ManagementPort& port) {
  Json processes = Json::array();
  for (const ManagementPort::Process* process : port.all_processes()) {
    processes.push_back(
        {{"pid", process->pid}, {"comm", process->program}, {"counters", connection_counters(process->counters)}});
  }
  return {{"counters", connection_counters(port.process_counters())}, {"processes", std::move(processes)}};
}

// Messages of connection managers by kind, under the kernel's names.
Json connection_messages(const MessageCounts& messages) {
  constexpr std::array<const char*, MessageCounts::kGroups> kGroups{"cm_rx_msgs", "cm_tx_msgs", "cm_tx_retries",
                                                                    "cm_rx_duplicates"};
  Json list = Json::array();
  for (const auto& [address, counts] : messages.by_address()) {
    Json& one = list.emplace_back(Json{{"address", control::address_text(address)}});
    for (std::size_t group = 0; group < kGroups.size(); ++group) {
      Json& named = one[kGroups[group]] = Json::object();
      for (std::size_t i = 0; i < kMessageNames.size(); ++i) named[std::string{kMessageNames[i]}] = counts[group][i];
    }
  }
  return list;
}

Json management(const ManagementPort& port) {
  const ManagementCounters& counters = port.counters();
  const StoppedCounters& stopped = port.stopped_counters();
  return {
      {"mads_received", counters.received}, {"mads_sent", counters.sent},         {"mads_refused", counters.refused},
      {"mads_bad", counters.bad},           {"mads_for_nobody", counters.nobody}, {"mads_unread", counters.unread},
      {"mads_forged", counters.forged},     {"mads_not_sent", counters.not_sent}, {"stopped_queries", stopped.queries},
      {"stopped_replies", stopped.replies}, {"stopped_limited", stopped.limited}};
}

// Totals of a device: ended leases and living ones.
Json statistics(const QueryContext& context) {
  const SharedState& state = context.book.state();
  std::map<std::string, Statistics> totals;
  for (std::size_t i = 0; i < state.device_count; ++i) {
    totals[std::string(io::get_text(state.devices[i].device))] = state.devices[i].ended;
  }
  Json processes = Json::array();
  for_each_lease(state, [&](std::uint32_t slot, const SlotRecord& record) {
    Json process = lease_json(slot, record);
    process["counters"] = nullptr;  // of a library with other counters
    if (record.statistics_known) {
      const Statistics counted = context.book.statistics(slot);
      control::accumulate(totals[std::string(io::get_text(record.device))], counted);
      process["counters"] = control::to_json(counted);
    }
    processes.push_back(std::move(process));
  });
  Json devices = Json::array();
  for (const auto& [device, sum] : totals) {
    devices.push_back({{"device", device}, {"counters", control::to_json(sum)}});
  }
  return {{"devices", std::move(devices)},
          {"processes", std::move(processes)},
          {"connections_refused", state.connections_refused},
          {"management_datagrams", state.management_datagrams},
          {"management", management(context.management)},
          {"icmp", icmp(context.icmp)},
          {"controller", controller(context.controller)},
          {"connections", connections(context.management)},
          {"connection_messages", connection_messages(context.management.messages())}};
}

Json shutdown(const QueryContext& context, const Json& request, bool& granted) {
  if (context.asker_uid != ::geteuid() && context.asker_uid != 0) {
    return error_json({EACCES, "only root and " + io::user_text(::geteuid()) + " may end this brdmad"});
  }
  const std::uint32_t used = leases_in_use(context.book.state());
  const auto force = request.find("force");
  if (used != 0 && (force == request.end() || *force != true)) {
    return error_json({EBUSY, std::to_string(used) + " leases are in use and would end: ask again with force"});
  }
  granted = true;
  return {{"shutdown", true}, {"leases_ended", used}};
}

Json answer(const QueryContext& context, const Json& request, bool& shut_down) {
  const auto name = request.is_object() ? request.find("query") : request.end();
  if (!request.is_object() || name == request.end() || !name->is_string()) {
    return error_json({EINVAL, R"(a question is one line like {"query":"version"})"});
  }
  const auto& query = name->get_ref<const std::string&>();
  if (query == "version") return version(context);
  if (query == "shutdown") return shutdown(context, request, shut_down);
  if (!may_use(context.options, context.asker_uid) && context.asker_uid != 0) return error_json(not_for_you());
  if (query == "config") return config(context);
  if (query == "leases") return leases(context);
  if (query == "statistics") return statistics(context);
  if (query == "cm_ids") return cm_ids(context);
  if (query == "gids") return context.gids.answer(request);
  return error_json({EINVAL,
                     "no such query; there are: version config leases statistics cm_ids gids recovery recovery_set "
                     "recovery_retransmit resource managed managed_add managed_remove "
                     "queue_pair_statistics events alarms alarm_set shutdown"});
}

}  // namespace

Json error_json(const ContextError& reason) {
  return {{"error", {{"errno", reason.error}, {"message", reason.message}}}};
}

Json lease_json(std::uint32_t slot, const SlotRecord& record) {
  return {{"pid", record.pid},
          {"comm", std::string(io::get_text(record.program))},
          {"device", std::string(io::get_text(record.device))},
          {"slot", slot},
          {"uid", record.uid},
          {"lease_id", record.lease_id},
          {"since_unix_ns", record.since_unix_ns}};
}

bool may_use(const Options& options, std::uint32_t uid) { return options.system || uid == ::geteuid(); }

ContextError not_for_you() {
  return {EACCES,
          "brdmad (pid " + std::to_string(::getppid()) + ") in this network namespace belongs to " +
              io::user_text(::geteuid()) +
              " and serves only that user: run as that user, or have an administrator end it (brdmad --stop) and run "
              "'brdmad --system' as a service, which serves every user"};
}

QueryAnswer answer_query(const QueryContext& context, std::string_view line) {
  const Json request = control::parse_json(line);
  QueryAnswer result;
  const Json reply = answer(context, request, result.shutdown);
  result.line = reply.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
  return result;
}

}  // namespace brdma::daemon
