// sim/host_config.h - what a host of a world is made of, and who watches its traffic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/ip_address.h"
#include "base/units.h"
#include "device/engine.h"
#include "sim/packet_pool.h"
#include "sim/processes/local_processes.h"

namespace brdma::sim {

class Host;

// Sees all traffic across an engine's boundary, in the engine's order. For checkers.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void sent(const Host& from, const Packet& packet, Instant now) = 0;
  virtual void received(const Host& by, const Packet& packet, Instant now) = 0;
};

// A busy machine: once in about `every` the process loses its core, for up to `length_max`.
struct Stalls {
  Duration every{};  // 0: never
  Duration length_max{};
};

struct HostConfig {
  std::string name = "host";  // in stories
  IpAddress address;
  EngineConfig engine;
  std::uint32_t socket_packets = 1u << 16;
  std::uint64_t socket_bytes = 1u << 30;
  bool sees_ip_id = false;               // as AF_XDP does
  bool defers_acknowledgements = false;  // defers acknowledgements that may wait for the application's next call
  bool traced = false;
  Stalls stalls{};
  // Hosts with the same value are processes of one machine, which may read each other's memory.
  LocalProcesses* machine = nullptr;
  // Cost of sending: a batch leaves, and the next one after this time, as where a core copies it into the socket. None:
  // all at once.
  std::optional<Bandwidth> output_rate{};
};

}  // namespace brdma::sim
