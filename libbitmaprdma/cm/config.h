// cm/config.h - how the connection manager waits and how much it keeps; and what it counts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/seed.h"
#include "base/units.h"

namespace brdma::cm {

struct Config {
  // High 16 bits of each communication and request id: by them, whoever passes MADs on knows whose they are.
  std::uint16_t id_prefix = 0;
  Seed seed = 1;
  // REQ, REP, DREQ and SIDR_REQ are sent again after resend_first, then after twice as long each time, at most
  // resend_max. With these values a peer that never answers is given up after 7.3 s.
  Duration resend_first = 20_ms, resend_max = 1_s;
  unsigned tries = 12;
  // What a MRA asks the peer for while the application thinks: 4.096 us * 2^n, half a second. Not longer: should the
  // answer that follows be lost, so long it takes until it is said again.
  std::uint8_t service_timeout = 17;
  // Local ACK timeout of queue pairs whose program names none, 4.096 us * 2^n: the kernel's RDMA-CM takes a RoCE packet
  // to live for a second at most (18) and a timeout of twice that. Shorter ones do not outlast a change of routes.
  std::uint8_t ack_timeout = 19;
  // How long a connection that has ended is remembered, for late duplicates.
  Duration time_wait = 1_s;
  std::size_t connections_max = 32'768;  // of all states; beyond, requests are refused and connect() fails
};

struct Counters {
  std::uint64_t requests = 0;       // REQ and SIDR_REQ that made an event
  std::uint64_t duplicates = 0;     // messages that had been seen before
  std::uint64_t resent = 0;         // of ours, because no answer came
  std::uint64_t timeouts = 0;       // peers given up
  std::uint64_t half_open = 0;      // of those: REPs of ours that nobody confirmed
  std::uint64_t backlog_full = 0;   // requests refused because the listener had too many
  std::uint64_t unknown = 0;        // about a connection that we don't know
  std::uint64_t wrong_address = 0;  // not from, or not to, whom the message or the connection names
  std::uint64_t unexpected = 0;     // known connection, but not in its state
  friend bool operator==(const Counters&, const Counters&) = default;
};

// Each of them with the name that `brdma statistic show cm` gives it.
struct NamedCounter {
  const char* name;
  std::uint64_t Counters::*value;
};
inline constexpr std::array kCounters{
    NamedCounter{"cm_requests", &Counters::requests},    NamedCounter{"cm_duplicates", &Counters::duplicates},
    NamedCounter{"cm_resent", &Counters::resent},        NamedCounter{"cm_timeouts", &Counters::timeouts},
    NamedCounter{"cm_half_open", &Counters::half_open},  NamedCounter{"cm_backlog_full", &Counters::backlog_full},
    NamedCounter{"cm_unknown", &Counters::unknown},      NamedCounter{"cm_wrong_address", &Counters::wrong_address},
    NamedCounter{"cm_unexpected", &Counters::unexpected}};
static_assert(sizeof(Counters) == kCounters.size() * sizeof(std::uint64_t), "each has its name");

inline Counters& operator+=(Counters& sum, const Counters& more) {
  for (const NamedCounter& counter : kCounters) sum.*counter.value += more.*counter.value;
  return sum;
}

}  // namespace brdma::cm
