#include "control/address_text.h"

#include <arpa/inet.h>

#include <array>

namespace brdma {

std::optional<IpAddress> parse_address(const std::string& text) {
  IpAddress address = IpAddress::v4(0, 0, 0, 0);
  if (inet_pton(AF_INET, text.c_str(), &address.bytes[12]) == 1) return address;
  if (inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

std::string print_address(const IpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = address.is_v4();
  inet_ntop(v4 ? AF_INET : AF_INET6, &address.bytes[v4 ? 12 : 0], text.data(), text.size());
  return text.data();
}

}  // namespace brdma
