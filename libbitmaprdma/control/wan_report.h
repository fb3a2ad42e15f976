// control/wan_report.h - link and destination reports between processes and brdmad (design WT-11; queries:
// io/management/management.h), as JSON with stable keys.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/ip_address.h"
#include "base/units.h"
#include "device/report.h"
#include "recovery/link_inquiry.h"

namespace brdma::control {

using Json = nlohmann::ordered_json;

// The address in the member "destination"; none: no such member, or no address.
[[nodiscard]] std::optional<IpAddress> destination_of(const Json& request);

[[nodiscard]] Json managed_json(const ManagedReport& report, Instant now);

// A sender's report of the links on its path, to JSON and back; none: another form.
[[nodiscard]] Json link_report_json(const recovery::LinkReport& report);
[[nodiscard]] std::optional<recovery::LinkReport> parse_link_report(const Json& json);

}  // namespace brdma::control
