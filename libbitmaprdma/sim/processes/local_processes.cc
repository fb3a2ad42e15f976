#include "sim/processes/local_processes.h"

#include <algorithm>
#include <cstring>

namespace brdma::sim {
namespace {

bool shines(const LocalClaim& claim) {
  const auto* const beacon = reinterpret_cast<const LocalBeacon*>(static_cast<std::uintptr_t>(claim.beacon));
  return beacon->magic == LocalBeacon::kMagic && beacon->nonce == claim.nonce;
}

}  // namespace

LocalProcess::LocalProcess(LocalProcesses& machine) : machine_(machine), pid_(machine.next_pid_++) {
  machine_.alive_.insert(pid_);
}

LocalProcess::~LocalProcess() { machine_.alive_.erase(pid_); }

bool LocalProcess::is_here(const IpAddress&) const { return true; }

LocalState LocalProcess::examine(const LocalClaim& claim, std::uint16_t) {
  if (!machine_.readable) return LocalState::kNotPermitted;
  if (!machine_.alive_.contains(claim.pid)) return LocalState::kNoProcess;
  return shines(claim) ? LocalState::kFetches : LocalState::kNoBeacon;
}

FetchResult LocalProcess::fetch(const LocalClaim& peer, std::span<const LocalPiece> from, std::span<const Slice> to) {
  if (!machine_.readable || !machine_.alive_.contains(peer.pid) || !shines(peer)) return FetchResult::kGone;
  if (machine_.faulty) return FetchResult::kFault;
  ++machine_.fetches_;
  std::size_t place = 0, written = 0;  // in `to`
  for (const LocalPiece& piece : from) {
    const auto* data = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(piece.address));
    for (std::size_t left = piece.length; left > 0;) {
      if (written == to[place].size) {
        ++place;
        written = 0;
        continue;
      }
      const std::size_t part = std::min(left, to[place].size - written);
      std::memcpy(static_cast<std::byte*>(const_cast<void*>(to[place].data)) + written, data, part);
      data += part;
      written += part;
      left -= part;
    }
  }
  return FetchResult::kDone;
}

}  // namespace brdma::sim
