// control/wan_report.h - what processes and brdmad say to each other of links and destinations (spec 3;
// io/management/management.h has the questions), as JSON with stable keys.
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

// Of the member "destination"; none: there is no such member, or it is no address.
[[nodiscard]] std::optional<IpAddress> destination_of(const Json& request);

[[nodiscard]] Json managed_json(const ManagedReport& report, Instant now);

// What a sender has heard of the links on its way, and back; none: it does not look like that.
[[nodiscard]] Json link_report_json(const recovery::LinkReport& report);
[[nodiscard]] std::optional<recovery::LinkReport> parse_link_report(const Json& json);

}  // namespace brdma::control
