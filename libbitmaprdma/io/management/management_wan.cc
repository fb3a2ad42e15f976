// Questions about wide-area paths (design WT-11, WT-14): links' reports, managed destinations.
#include <cerrno>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "control/wan_report.h"
#include "io/management/management.h"
#include "io/shard/clock.h"

namespace brdma::io {
namespace {

using Json = nlohmann::ordered_json;

Json error_json(int error, const char* message) { return {{"error", {{"errno", error}, {"message", message}}}}; }

}  // namespace

Json Management::link_reports(const Json& /*request*/) {
  std::vector<recovery::LinkReport> reports;
  {
    const std::lock_guard held{shard_.lock()};
    while (auto report = shard_.engine().poll_link_report()) reports.push_back(std::move(*report));
  }
  Json rows = Json::array();
  for (const auto& report : reports) rows.push_back(control::link_report_json(report));
  return {{"rows", std::move(rows)}};
}

Json Management::managed(const Json& /*request*/) {
  std::vector<ManagedReport> reports;
  {
    const std::lock_guard held{shard_.lock()};
    reports = shard_.engine().managed_destinations();
  }
  Json rows = Json::array();
  const Instant now = monotonic_now();
  for (const auto& report : reports) rows.push_back(control::managed_json(report, now));
  return {{"rows", std::move(rows)}};
}

// `change` is one of the engine's functions.
Status Management::change_managed(const IpAddress& peer, Status (Engine::*change)(const IpAddress&, Instant)) {
  Status status;
  bool wake = false;
  {
    const std::lock_guard held{shard_.lock()};
    const Instant now = monotonic_now();
    status = (shard_.engine().*change)(peer, now);
    shard_.settle(now);  // deadlines may have changed
    wake = shard_.progress_owner().take_wake_request();
  }
  if (wake) shard_.progress_owner().wake();
  return status;
}

Json Management::manage(const Json& request) {
  const auto peer = control::destination_of(request);
  if (!peer) return error_json(EINVAL, "destination: an address was expected");
  const Status status = change_managed(*peer, &Engine::manage_destination);
  if (status.error() == ENOSPC) return error_json(ENOSPC, "as many destinations are managed as can be");
  return {{"changed", status.ok()}};
}

Json Management::release(const Json& request) {
  const auto peer = control::destination_of(request);
  if (!peer) return error_json(EINVAL, "destination: an address was expected");
  return {{"changed", change_managed(*peer, &Engine::release_destination).ok()}};
}

// No answer is expected.
void Management::take_control_packet(const Json& news) {
  if (const auto peer = control::destination_of(news)) (void)change_managed(*peer, &Engine::handle_control_packet);
}

}  // namespace brdma::io
