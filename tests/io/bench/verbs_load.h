// tests/io/bench/verbs_load.h - the same measurements on brdma::Context, in the shape of perftest's programs.
#pragma once

#include "endpoint.h"
#include "two_processes.h"

namespace brdma::bench {

struct LoadOptions {
  IpAddress server, client;
  PathMtu mtu = PathMtu::k4096;
  std::uint32_t bytes = 65536;
  std::uint32_t depth = 128;  // work requests outstanding
  std::uint32_t list = 1;     // posted at once
  double seconds = 1.0;
  io::ContextImpl::Options context;
};

// Like ib_write_bw: the server makes no call. Results: [0] Gbit/s of messages, [1] thousand messages a second.
void write_bw_server(Exchange& exchange, io::Lease lease, const LoadOptions& options);
void write_bw_client(Exchange& exchange, io::Lease lease, const LoadOptions& options);

// Like ib_write_lat: post, poll for the completion, spin on the last byte. [0] half round trip median us, [1] 99 %.
void write_lat_side(Exchange& exchange, io::Lease lease, const LoadOptions& options, bool server);
// Like ib_send_lat: poll for the received message, post the reply.
void send_lat_side(Exchange& exchange, io::Lease lease, const LoadOptions& options, bool server);

}  // namespace brdma::bench
