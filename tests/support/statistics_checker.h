// support/statistics_checker.h - conditions on a host's counters after any run.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "sim/host.h"

namespace brdma::test {

// Drops that a world may cause.
struct ExpectedDrops {
  bool corrupted = false;       // packets were: refused for their bytes
  bool unknown_opcode = false;  // some do not negotiate bitmap mode: CAPS is unknown to them
  bool unknown_qp = false;      // some end while their peers continue; a new one may reuse an old one's number
};

// Every received packet was accepted or dropped for a reason, and no reason occurs without a cause.
inline std::vector<std::string> check_statistics(const sim::Host& host, const ExpectedDrops& expected) {
  std::vector<std::string> findings;
  const Statistics& statistics = host.statistics();
  std::uint64_t used = statistics.get(Counter::kAcceptedPackets);
  for (const std::uint64_t drops : statistics.drops) used += drops;
  if (used != statistics.get(Counter::kReceivedPackets)) {
    findings.push_back(host.config().name + " received " + std::to_string(statistics.get(Counter::kReceivedPackets)) +
                       " packets, accepted and dropped " + std::to_string(used));
  }
  using enum DropReason;
  for (const DropReason reason : {kBadVersion, kBadPkey, kUnknownOpcode, kUnknownQp, kWrongPeer, kBadLength,
                                  kBadControl, kFault, kTruncated, kBadIcrc}) {
    if (reason == kUnknownOpcode && expected.unknown_opcode) continue;
    if ((reason == kUnknownQp || reason == kWrongPeer) && expected.unknown_qp) continue;
    if (statistics.get(reason) != 0 && !expected.corrupted) {
      findings.push_back(host.config().name + " counts " + std::to_string(statistics.get(reason)) + " " +
                         std::string{kDropReasonNames[static_cast<std::size_t>(reason)]});
    }
  }
  // The ICRC detects a flipped bit, except for the few bits that it does not cover, which change nothing.
  if (statistics.get(kFault) != 0) findings.push_back(host.config().name + " saw a memory fault");
  return findings;
}

}  // namespace brdma::test
