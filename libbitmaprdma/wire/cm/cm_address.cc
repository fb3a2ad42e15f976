#include "wire/cm/cm_address.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::wire {
namespace {

// An IPv4 address is in the last four of 16 bytes; the others are zero.
IpAddress load_address(const std::byte* p, bool v4) {
  if (v4) return IpAddress::v4(load_u8(p + 12), load_u8(p + 13), load_u8(p + 14), load_u8(p + 15));
  IpAddress address;
  std::memcpy(address.bytes.data(), p, address.bytes.size());
  return address;
}
void store_address(std::byte* p, const IpAddress& address) {
  std::memcpy(p, address.bytes.data(), address.bytes.size());
  if (address.is_v4()) std::fill_n(p, 12, std::byte{0});
}

}  // namespace

std::optional<CmAddress> parse_cm_address(const std::byte* p) {
  const unsigned ip_version = load_u8(p + 1) >> 4;
  if (load_u8(p) != 0 || (ip_version != 4 && ip_version != 6)) return std::nullopt;
  const bool v4 = ip_version == 4;
  CmAddress address{
      .source_port = load_be16(p + 2), .source = load_address(p + 4, v4), .destination = load_address(p + 20, v4)};
  if (address.source.is_v4() != v4 || address.destination.is_v4() != v4) return std::nullopt;
  return address;
}

void emit_cm_address(const CmAddress& address, std::byte* out) {
  BRDMA_CHECK(address.source.is_v4() == address.destination.is_v4());
  store_u8(out, 0);
  store_u8(out + 1, address.source.is_v4() ? 0x40 : 0x60);
  store_be16(out + 2, address.source_port);
  store_address(out + 4, address.source);
  store_address(out + 20, address.destination);
}

}  // namespace brdma::wire
