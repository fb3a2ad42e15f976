// control/address_text.h - IP addresses as people write them (inet_pton(3)): "10.77.2.3", "fd77::2".
#pragma once

#include <optional>
#include <string>

#include "base/ip_address.h"

namespace brdma {

[[nodiscard]] std::optional<IpAddress> parse_address(const std::string& text);
[[nodiscard]] std::string print_address(const IpAddress& address);

}  // namespace brdma
