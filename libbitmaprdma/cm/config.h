// cm/config.h - timeouts and limits of the connection manager; its counters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/seed.h"
#include "base/units.h"

namespace brdma::cm {

struct Config {
  // High 16 bits of each communication and request id: brdmad passes MADs on to processes by them.
  std::uint16_t id_prefix = 0;
  Seed seed = 1;
  // REQ, REP, DREQ and SIDR_REQ are resent after resend_first, then after twice as long each time, at most resend_max.
  // With these values a peer that never answers is given up after 7.3 s.
  Duration resend_first = 20_ms, resend_max = 1_s;
  unsigned tries = 12;
  // Time that a MRA requests from the peer while the application decides: 4.096 us * 2^n, half a second. A larger value
  // delays the resend of a lost answer by as much.
  std::uint8_t service_timeout = 17;
  // Local ACK timeout of queue pairs whose program names none, 4.096 us * 2^n. The kernel's RDMA-CM assumes a packet
  // lifetime of at most a second for RoCE (18) and a timeout of twice that. Shorter ones do not outlast a change of
  // routes.
  std::uint8_t ack_timeout = 19;
  // Time for which an ended connection is remembered, for late duplicates.
  Duration time_wait = 1_s;
  std::size_t connections_max = 32'768;  // of all states; beyond, requests are refused and connect() fails
};

struct Counters {
  std::uint64_t requests = 0;       // REQ and SIDR_REQ that made an event
  std::uint64_t duplicates = 0;     // messages received before
  std::uint64_t resent = 0;         // of ours, because no answer came
  std::uint64_t timeouts = 0;       // peers given up
  std::uint64_t half_open = 0;      // of those: our REPs without a confirmation
  std::uint64_t backlog_full = 0;   // requests refused because the listener had too many
  std::uint64_t unknown = 0;        // about a connection that we don't know
  std::uint64_t wrong_address = 0;  // source or destination differs from the message's or the connection's
  std::uint64_t unexpected = 0;     // known connection, but not in its state
  friend bool operator==(const Counters&, const Counters&) = default;
};

// Each with its name in `brdma statistic show cm`.
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
