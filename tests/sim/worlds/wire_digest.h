// sim/worlds/wire_digest.h - one number for all packets of a world's hosts with their times, to the byte, and for the
// engines' traces: two builds with the same numbers behave alike.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sim/host.h"
#include "wire/headers.h"

namespace brdma::test {

class WireDigest : public sim::Observer {
 public:
  // Hosts that pass data by local reference name real addresses, which differ in each run: of their packets, only BTH
  // and length count.
  void leave_out_bodies() { all_ = false; }
  void sent(const sim::Host& from, const sim::Packet& packet, Instant now) override {
    add(from.config().name);
    add_value(now.ns());
    add_value(packet.source_port);
    add_value(packet.traffic_class);
    add({reinterpret_cast<const char*>(packet.bytes.data()), all_ ? packet.bytes.size() : wire::kBthSize});
    add_value(packet.bytes.size());
  }
  void received(const sim::Host&, const sim::Packet&, Instant) override {}
  void add(std::string_view bytes) {
    for (const char byte : bytes) step(static_cast<std::uint8_t>(byte));
    add_value(bytes.size());
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  template <class T>
  void add_value(T value) {
    for (std::size_t i = 0; i < sizeof value; ++i) step(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  void step(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001B3u; }  // FNV-1a
  bool all_ = true;
  std::uint64_t hash_ = 0xCBF29CE484222325u;
};

}  // namespace brdma::test
