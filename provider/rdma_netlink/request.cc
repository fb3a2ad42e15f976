#include "rdma_netlink/request.h"

#include <algorithm>
#include <cstring>

namespace brdma::provider::nldev {
namespace {

constexpr std::size_t kAttributeHeader = 4, kAlign = 4;
constexpr std::uint16_t kTypeMask = 0x3FFF;
constexpr std::size_t kDeviceNameMax = 64, kInterfaceNameMax = 16, kNodeKindMax = 128, kLinkTypeMax = 20;

template <class Number>
Number load(ConstBytes from) {
  Number number;
  std::memcpy(&number, from.data(), sizeof number);
  return number;
}

// The most bytes of a text, its end included; 0: no text.
std::size_t text_max(Attribute type) {
  switch (type) {
    case Attribute::kDeviceName:
      return kDeviceNameMax;
    case Attribute::kInterfaceName:
      return kInterfaceNameMax;
    case Attribute::kLinkType:
      return kLinkTypeMax;
    case Attribute::kNodeKind:
      return kNodeKindMax;
    default:
      return 0;
  }
}

// Numbers that a request may have.
bool is_number(Attribute type) {
  constexpr std::array kNumbers{Attribute::kDeviceIndex,   Attribute::kPortIndex,   Attribute::kLocalQpn,
                                Attribute::kPdn,           Attribute::kCqn,         Attribute::kMrn,
                                Attribute::kCmIdn,         Attribute::kCtxn,        Attribute::kSrqn,
                                Attribute::kStatisticMode, Attribute::kNamespaceFd, Attribute::kStatisticResource};
  return std::find(kNumbers.begin(), kNumbers.end(), type) != kNumbers.end();
}

bool is_valid(Attribute type, ConstBytes value) {
  if (is_number(type)) return value.size() >= sizeof(std::uint32_t);
  const std::size_t most = text_max(type);
  if (most == 0) return true;
  const auto end = std::find(value.begin(), value.end(), std::byte{0});
  return end != value.end() && static_cast<std::size_t>(end - value.begin()) < most;
}

}  // namespace

std::optional<Attributes> Attributes::parse(ConstBytes bytes) {
  Attributes all;
  while (bytes.size() >= kAttributeHeader) {
    const std::size_t length = load<std::uint16_t>(bytes);
    const std::size_t type = load<std::uint16_t>(bytes.subspan(2)) & kTypeMask;
    if (length < kAttributeHeader || length > bytes.size()) break;
    const ConstBytes value = bytes.subspan(kAttributeHeader, length - kAttributeHeader);
    if (type < kTypes) {
      if (!is_valid(static_cast<Attribute>(type), value)) return std::nullopt;
      all.values_[type] = value;
    }
    bytes = bytes.subspan(std::min((length + kAlign - 1) / kAlign * kAlign, bytes.size()));
  }
  return all;
}

std::optional<std::uint32_t> Attributes::number(Attribute type) const {
  if (value(type).size() < sizeof(std::uint32_t)) return std::nullopt;
  return load<std::uint32_t>(value(type));
}

std::optional<std::string_view> Attributes::text(Attribute type) const {
  const ConstBytes bytes = value(type);
  const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
  if (end == bytes.end()) return std::nullopt;
  return std::string_view{reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(end - bytes.begin())};
}

std::optional<Request> next_request(ConstBytes& rest) {
  if (rest.size() < kHeaderBytes) return std::nullopt;
  Request request;
  request.header = {load<std::uint32_t>(rest), load<std::uint16_t>(rest.subspan(4)),
                    load<std::uint16_t>(rest.subspan(6)), load<std::uint32_t>(rest.subspan(8)),
                    load<std::uint32_t>(rest.subspan(12))};
  const std::size_t length = request.header.length;
  if (length < kHeaderBytes || length > rest.size()) return std::nullopt;
  request.whole = rest.first(length);
  request.payload = request.whole.subspan(kHeaderBytes);
  rest = rest.subspan(std::min((length + kAlign - 1) / kAlign * kAlign, rest.size()));
  return request;
}

}  // namespace brdma::provider::nldev
