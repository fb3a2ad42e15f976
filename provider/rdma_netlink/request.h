// rdma_netlink/request.h - a program's message, checked: netlink header and attributes. Any bytes may come.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "rdma_netlink/protocol.h"

namespace brdma::provider::nldev {

// struct nlmsghdr.
struct Header {
  std::uint32_t length = 0;
  std::uint16_t type = 0, flags = 0;
  std::uint32_t sequence = 0, port = 0;
};
inline constexpr std::size_t kHeaderBytes = 16;

// The attributes of one message. Points into its bytes.
class Attributes {
 public:
  // Reads them as the kernel reads those of old families: unknown types are skipped, the last of a type counts, and
  // what is malformed ends the list. None: one has too few bytes for its type, or a text without its end (EINVAL).
  static std::optional<Attributes> parse(ConstBytes bytes);

  [[nodiscard]] bool has(Attribute type) const { return !value(type).empty(); }
  [[nodiscard]] std::optional<std::uint32_t> number(Attribute type) const;
  [[nodiscard]] std::optional<std::string_view> text(Attribute type) const;

 private:
  static constexpr std::size_t kTypes = 104;
  [[nodiscard]] ConstBytes value(Attribute type) const { return values_[static_cast<std::size_t>(type)]; }
  std::array<ConstBytes, kTypes> values_{};
};

// The next message of a datagram, and the bytes behind it.
struct Request {
  Header header;
  ConstBytes whole;    // header and payload, as long as the header says
  ConstBytes payload;  // behind the header
};
// None: no header is left, or its length is wrong: the rest of the datagram is ignored. `rest` becomes what follows.
[[nodiscard]] std::optional<Request> next_request(ConstBytes& rest);

}  // namespace brdma::provider::nldev
