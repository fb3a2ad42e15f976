// topology/prefix_text.h - prefixes as people write them: "10.77.2.0/24", "fd77:0:0:2::/64", "10.77.2.3".
#pragma once

#include <optional>
#include <string>

#include "control/address_text.h"
#include "fabric/routing/forwarding_table.h"

namespace brdma::topology {

// An address alone is its whole length. Nothing also where bits behind the length are set: a mistake, most likely.
[[nodiscard]] std::optional<fabric::Prefix> parse_prefix(const std::string& text);
[[nodiscard]] std::string print_prefix(const fabric::Prefix& prefix);

}  // namespace brdma::topology
