// topology/prefix_text.h - prefixes in their usual notation: "10.77.2.0/24", "fd77:0:0:2::/64", "10.77.2.3".
#pragma once

#include <optional>
#include <string>

#include "control/address_text.h"
#include "fabric/routing/forwarding_table.h"

namespace brdma::topology {

// A single address has its full length. Also none if bits behind the length are set: most likely a mistake.
[[nodiscard]] std::optional<fabric::Prefix> parse_prefix(const std::string& text);
[[nodiscard]] std::string print_prefix(const fabric::Prefix& prefix);

}  // namespace brdma::topology
