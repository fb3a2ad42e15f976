// rdma_netlink/message.h - writes netlink messages and attributes.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "rdma_netlink/protocol.h"
#include "rdma_netlink/request.h"

namespace brdma::provider::nldev {

class Writer {
 public:
  void u8(Attribute type, std::uint8_t value) { scalar(type, value); }
  void u32(Attribute type, std::uint32_t value) { scalar(type, value); }
  void u64(Attribute type, std::uint64_t value) { scalar(type, value); }
  void text(Attribute type, std::string_view value);  // with its end
  void raw(Attribute type, ConstBytes value);
  // A nest of already written attributes.
  void nest(Attribute type, ConstBytes attributes, bool flagged = false);
  void attach(ConstBytes attributes) { bytes_.insert(bytes_.end(), attributes.begin(), attributes.end()); }
  [[nodiscard]] const Bytes& bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  template <class Number>
  void scalar(Attribute type, Number value) {
    raw(type, std::as_bytes(std::span{&value, 1}));
  }
  void put(std::uint16_t type, ConstBytes value);
  Bytes bytes_;
};

// The header, then `payload`; the length is filled in.
[[nodiscard]] Bytes message(Header header, ConstBytes payload);

}  // namespace brdma::provider::nldev
