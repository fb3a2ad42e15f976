#include "topology/prefix_text.h"

#include <charconv>

namespace brdma::topology {

std::optional<fabric::Prefix> parse_prefix(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto address = parse_address(text.substr(0, slash));
  if (!address) return std::nullopt;
  const bool v4 = text.find(':') == std::string::npos;
  unsigned length = v4 ? 32 : 128;
  if (slash != std::string::npos) {
    const unsigned length_max = length;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, length);
    if (error != std::errc{} || stop != end || length > length_max) return std::nullopt;
  }
  const auto bits = static_cast<std::uint8_t>(length);
  const fabric::Prefix prefix = v4 ? fabric::Prefix::v4(*address, bits) : fabric::Prefix::of(*address, bits);
  if (!(prefix.address == *address)) return std::nullopt;
  return prefix;
}

std::string print_prefix(const fabric::Prefix& prefix) {
  const bool v4 = prefix.address.is_v4() && prefix.length >= 96;
  return print_address(prefix.address) + "/" + std::to_string(v4 ? prefix.length - 96 : prefix.length);
}

}  // namespace brdma::topology
