// tests/io/bench/raw_udp.h - the baselines: the kernel's UDP alone with the same system calls.
#pragma once

#include <cstdint>

#include "base/ip_address.h"
#include "two_processes.h"

namespace brdma::bench {

struct RawOptions {
  IpAddress server, client;
  std::uint16_t segment_bytes = 4152;
  std::uint16_t segments = 15;
  bool work = false;  // header slice per segment, CRC on both sides, one copy at the receiver: the work of any stack
  double seconds = 1.0;
  std::uint8_t server_slot = 2, client_slot = 2;  // in byte 7 of each datagram: selects the socket of the group
};

// GSO sender, UDP_GRO receiver polling; the receiver's count in shared memory holds the sender to 1 MiB in flight, so
// no acknowledgements travel. Sides for run_two(); results: [0] Gbit/s of UDP payload, [1] thousand datagrams a second.
void raw_stream_server(Exchange& exchange, int receive_fd, const RawOptions& options);
void raw_stream_client(Exchange& exchange, const RawOptions& options);

// 64-byte datagrams back and forth, both sides polling. [0] half round trip, median, us; [1] 99th percentile.
void raw_ping_server(Exchange& exchange, int receive_fd, const RawOptions& options);
void raw_ping_client(Exchange& exchange, int receive_fd, const RawOptions& options);

// 64-byte datagrams one way by sendmmsg(32) without GSO. [1] thousand a second received.
void raw_mmsg_client(Exchange& exchange, const RawOptions& options);

}  // namespace brdma::bench
