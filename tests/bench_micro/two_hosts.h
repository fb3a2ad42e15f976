// two_hosts.h - two engines with a connected queue pair each and a wire of memory between them, for measurements
// without sockets. Header only; programs, no tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "device/engine.h"

namespace brdma::bench_micro {

struct Host {
  IpAddress address;
  EngineConfig config;
  Statistics statistics;
  std::unique_ptr<Engine> engine;
  ProtectionDomain* pd = nullptr;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  std::uint32_t key = 0;
  std::vector<std::byte> memory = std::vector<std::byte>(1u << 20, std::byte{0x5A});
  [[nodiscard]] std::uint64_t at() const { return reinterpret_cast<std::uint64_t>(memory.data()); }
};

// Another queue pair, which becomes host.qp.
inline void add_queue_pair(Host& host) {
  QpCreate create{
      .pd = host.pd,
      .send_cq = host.cq,
      .receive_cq = host.cq,
      .capabilities = {.send_wr_max = 1024, .receive_wr_max = 1024, .send_sge_max = 1, .receive_sge_max = 1}};
  host.qp = host.engine->create_qp(create).value();
}

// Its engine and objects, by host.config.
inline void open(Host& host, std::uint8_t number) {
  host.address = IpAddress::v4(10, 0, 0, number);
  host.config.seed = number;
  host.engine = std::make_unique<Engine>(host.config, host.statistics, nullptr);
  host.pd = host.engine->alloc_pd();
  host.cq = host.engine->create_cq(4096, nullptr).value();
  add_queue_pair(host);
  const std::uint32_t all = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead;
  MemoryRegion* region = host.engine->register_memory(host.pd, host.at(), host.memory.size(), host.at(), all).value();
  host.key = host.engine->info(region).lkey;
}

// `segments`: large transfers go as operations of 64 KiB.
inline void make(Host& host, std::uint8_t number, bool bitmap, bool segments) {
  host.config.segments_max = 64;
  host.config.receive_packets = 4096;
  host.config.receive_bytes = 16u << 20;
  if (segments) host.config.transfer = {.threshold_bytes = 1024, .segment_bytes = 64 * 1024};
  host.config.recovery.mode = bitmap ? RecoveryMode::kBitmap : RecoveryMode::kStandard;
  host.config.recovery.standard_window_packets = 1024;
  open(host, number);
}

inline void connect(Host& host, const Host& peer, PathMtu mtu, Instant now, std::uint8_t timeout = 0) {
  QpAttributes a;
  a.timeout = timeout;
  a.path_mtu = mtu;
  a.access = kAccessRemoteWrite | kAccessRemoteRead;
  a.max_rd_atomic = a.max_dest_rd_atomic = 16;
  a.destination_qpn = peer.engine->qp_num(peer.qp);
  a.local_address = host.address;
  a.peer_address = peer.address;
  const auto move = [&](QpState state, std::uint32_t mask) {
    a.state = state;
    if (!host.engine->modify_qp(host.qp, a, mask | kQpAttrState, now).ok()) std::abort();
  };
  move(QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess);
  move(QpState::kRtr,
       kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer);
  move(QpState::kRts, kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic);
}

// A batch as it lies in the receiver's buffers.
struct Wire {
  std::vector<std::byte> bytes;
  std::size_t segment = 0;
};

// Sends all pending packets of `from`; returns their number. `send(engine, buffer, transmit)` is the measured
// poll_transmit.
template <class Send>
std::size_t drain(Host& from, std::vector<Wire>& out, Send&& send) {
  static TransmitBuffer buffer;
  Transmit transmit;
  std::size_t packets = 0;
  while (send(*from.engine, buffer, transmit)) {
    packets += transmit.segments;
    Wire wire;
    wire.segment = transmit.segment_bytes;
    for (const Slice& slice : transmit.slices) {
      const auto* data = static_cast<const std::byte*>(slice.data);
      wire.bytes.insert(wire.bytes.end(), data, data + slice.size);
    }
    out.push_back(std::move(wire));
  }
  return packets;
}

// Delivers the packets on the wires one by one. `take(engine, datagrams)` is the measured handle_datagram of each.
template <class Take>
void deliver(const Host& from, Host& to, std::vector<Wire>& wires, Take&& take) {
  std::vector<Datagram> datagrams;
  for (const Wire& wire : wires) {
    datagrams.clear();
    for (std::size_t at = 0; at < wire.bytes.size(); at += wire.segment) {
      Datagram datagram;
      datagram.source = from.address;
      datagram.destination = to.address;
      datagram.source_port = 0xC000;
      datagram.ip_id_known = true;
      datagram.ip_id = static_cast<std::uint16_t>(datagrams.size());
      datagram.bytes = ConstBytes{wire.bytes}.subspan(at, std::min(wire.segment, wire.bytes.size() - at));
      datagrams.push_back(datagram);
    }
    take(*to.engine, datagrams);
  }
  wires.clear();
}

}  // namespace brdma::bench_micro
