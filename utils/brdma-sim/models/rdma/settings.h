// models/rdma/settings.h - the parameters of RoCE's models, and their sources.
#pragma once

#include <optional>

#include "models/model.h"

namespace brdma::models::rdma {

enum class RecoveryRule : std::uint8_t { kGoBackN, kIrn, kIrnNs3 };
enum class ControlRule : std::uint8_t { kNone, kDcqcn, kSwift };

// InfiniBand's Local ACK Timeout: 4.096 us x 2^n, n 1 to 31; 0 is off (IBTA C9-139 to 141). n = 10: 4.19 ms.
// An adapter may detect the loss as late as four times that: state which time a comparison takes.
[[nodiscard]] constexpr Duration local_ack_timeout(unsigned n) {
  return n == 0 ? Duration{} : Duration::from_ns(std::int64_t{4096} << n);
}

// No back-off. `high` 0: no timer.
struct Timeouts {
  Duration high = local_ack_timeout(10);
  Duration low;                   // while at most `low_packets` are outstanding
  std::uint32_t low_packets = 0;  // IRN: 3
};

struct ReceiverSettings {
  std::uint32_t ack_every = 1;           // packets in order (go-back-N); the last one of a flow is always acknowledged
  Duration nack_interval = 500_us;       // go-back-N: a NACK of the same expected byte again (hpcc 500, ConWeave 4 us)
  bool answers_duplicates = true;        // go-back-N: ConWeave (IBTA C9-110) yes, hpcc no: lost ACKs then never end
  bool nacks_while_holes = false;        // IRN: an arrival in order is a NACK, too, while there are holes (irn-ns3)
  bool cnp_on_nack = false;              // a NACK is also a CNP (ConWeave)
  std::optional<Duration> cnp_interval;  // at most one CNP frame in it; none: `ece` of ACKs and NACKs is the CNP
};

// Rates in bit/s. The two sets of the common simulators: dcqcn_nic, dcqcn_paper.
struct DcqcnSettings {
  double line = 0;  // the rate at start, and the highest
  double minimum = 0;
  double additive = 0;  // increase in a step
  double hyper = 0;     // the same, after more than fast_steps
  double g = 1.0 / 256;
  unsigned fast_steps = 1;  // F
  Duration alpha_interval;
  Duration decrease_interval;  // at most one cut in it
  Duration increase_interval;  // RP timer
  bool clamp_target = false;   // a cut lowers the target even if no increase came since the last one
};
// HPCC's run.py: `dcqcn` (1, 4, 300 us) and `dcqcn_paper` (50, 50, 55 us); both: additive 5, hyper 50 Mbit/s per
// 25 Gbit/s of the link, at least 1 Gbit/s.
[[nodiscard]] DcqcnSettings dcqcn_nic(Bandwidth line);
[[nodiscard]] DcqcnSettings dcqcn_paper(Bandwidth line);

// Windows in packets. Values as published in Falcon's model; base and per-hop delay belong to a topology.
struct SwiftSettings {
  double additive = 1.0;  // increase, an RTT
  double beta = 0.8;
  double max_cut = 0.5;  // of one decrease
  double window_min = 0.01;
  double window_max = 256;
  double window_start = 256;
  Duration base = 25_us;
  Duration per_hop = 1_us;
  unsigned hops = 6;
  Duration flow_range = 100_us;  // flow scaling: added to the target at flow_min, nothing at flow_max
  double flow_min = 0.1;
  double flow_max = 256;
  unsigned timeouts_to_minimum = 3;
};

struct Settings {
  Sizes sizes{4096, 62, 66};  // header: Ethernet 18, IPv4 20, UDP 8, BTH 12, ICRC 4; ACK: and AETH 4
  RecoveryRule recovery = RecoveryRule::kGoBackN;
  ControlRule control = ControlRule::kNone;
  std::uint64_t cap = 0;  // bytes outstanding at most, IRN's BDP-FC; 0: no cap
  Timeouts timeouts;
  bool edn = false;
  ReceiverSettings receiver;
  DcqcnSettings dcqcn;
  SwiftSettings swift;
};

}  // namespace brdma::models::rdma
