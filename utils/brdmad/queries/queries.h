// brdmad/queries/queries.h - answers to JSON queries (docs/explanation/daemon.md#questions). Pure but for the clock,
// pids and interfaces.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "connections/management_port.h"
#include "lease/gid_book.h"
#include "lease/lease_book.h"
#include "network/controller_link.h"
#include "network/icmp_intake.h"
#include "options.h"

namespace brdma::daemon {

using Json = nlohmann::ordered_json;

struct QueryContext {
  const Options& options;
  const LeaseBook& book;
  const ManagementPort& management;
  const IcmpIntake& icmp;
  const ControllerLink* controller = nullptr;  // null: none is set
  GidBook& gids;
  bool dual_stack = false;
  std::uint32_t asker_uid = 0;
};

struct QueryAnswer {
  std::string line;       // JSON and a line feed
  bool shutdown = false;  // the daemon ends once the answer is sent
};

// Errors are answered as {"error":{"errno":N,"message":"..."}}: EINVAL not JSON or no such query, EACCES, EBUSY.
[[nodiscard]] QueryAnswer answer_query(const QueryContext& context, std::string_view line);

// The parts of answers.
[[nodiscard]] Json error_json(const ContextError& reason);
[[nodiscard]] Json lease_json(std::uint32_t slot, const SlotRecord& record);

// The users that may have a lease of this daemon or query it.
[[nodiscard]] bool may_use(const Options& options, std::uint32_t uid);
[[nodiscard]] ContextError not_for_you();

}  // namespace brdma::daemon
