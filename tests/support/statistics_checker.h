// support/statistics_checker.h - what the counters of a host must say after a run, whatever happened in it.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "sim/host.h"

namespace brdma::test {

// Every packet received was accepted or dropped for a reason. Where no packet was corrupted, none was refused for its
// bytes, and no reason occurs that well-behaved peers give no cause for.
// `agree`: both sides negotiate bitmap mode (else CAPS is an unknown opcode to one of them).
inline std::vector<std::string> check_statistics(const sim::Host& host, bool corrupted, bool agree) {
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
    if (reason == kUnknownOpcode && !agree) continue;
    if (statistics.get(reason) != 0 && !corrupted) {
      findings.push_back(host.config().name + " counts " + std::to_string(statistics.get(reason)) + " " +
                         std::string{kDropReasonNames[static_cast<std::size_t>(reason)]});
    }
  }
  // A flipped bit is found by the ICRC, but for the few bits that it does not cover, which change nothing.
  if (statistics.get(kWrongPeer) != 0 || statistics.get(kFault) != 0) {
    findings.push_back(host.config().name + " saw a wrong peer or a memory fault");
  }
  return findings;
}

}  // namespace brdma::test
