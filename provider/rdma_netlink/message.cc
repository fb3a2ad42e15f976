#include "rdma_netlink/message.h"

#include <algorithm>

namespace brdma::provider::nldev {
namespace {

void append(Bytes& to, ConstBytes bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

template <class Number>
void append_number(Bytes& to, Number number) {
  append(to, std::as_bytes(std::span{&number, 1}));
}

}  // namespace

void Writer::put(std::uint16_t type, ConstBytes value) {
  append_number(bytes_, static_cast<std::uint16_t>(value.size() + 4));
  append_number(bytes_, type);
  append(bytes_, value);
  bytes_.resize((bytes_.size() + 3) / 4 * 4);
}

void Writer::raw(Attribute type, ConstBytes value) { put(static_cast<std::uint16_t>(type), value); }

void Writer::text(Attribute type, std::string_view value) {
  Bytes ended(value.size() + 1);
  std::ranges::copy(std::as_bytes(std::span{value}), ended.begin());
  raw(type, ended);
}

void Writer::nest(Attribute type, ConstBytes attributes, bool flagged) {
  put(static_cast<std::uint16_t>(static_cast<std::uint16_t>(type) | (flagged ? kNested : 0)), attributes);
}

Bytes message(Header header, ConstBytes payload) {
  Bytes bytes;
  append_number(bytes, static_cast<std::uint32_t>(kHeaderBytes + payload.size()));
  append_number(bytes, header.type);
  append_number(bytes, header.flags);
  append_number(bytes, header.sequence);
  append_number(bytes, header.port);
  append(bytes, payload);
  return bytes;
}

}  // namespace brdma::provider::nldev
