// base/local_memory.h - interface for reading the memory of another process of this machine
// (docs/explanation/local.md). The engine knows no processes; its driver implements this: io by process_vm_readv(), the
// simulator by memcpy().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/datagram.h"
#include "base/ip_address.h"

namespace brdma {

// A queue pair's marker in its process's memory. It is visible while the queue pair sends, and removed before the
// program learns that anything is over. A fetcher compares it after the data: a match proves that the data was the
// queue pair's.
struct LocalBeacon {
  static constexpr std::uint64_t kMagic = 0x6272646d612d6c31;  // "brdma-l1"
  std::uint64_t magic = 0;                                     // 0: dark
  std::array<std::uint64_t, 2> nonce{};

  friend bool operator==(const LocalBeacon&, const LocalBeacon&) = default;
};
static_assert(sizeof(LocalBeacon) == 24);

// Address and contents of the beacon; sent in CAPS.
struct LocalClaim {
  std::uint32_t pid = 0;
  std::uint64_t pid_namespace = 0;  // 0: not known
  std::uint64_t beacon = 0;         // its address
  std::array<std::uint64_t, 2> nonce{};
};

// A piece of another process's memory.
struct LocalPiece {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  friend bool operator==(const LocalPiece&, const LocalPiece&) = default;
};

// State of local transfer with a peer: used, or the reason against it.
enum class LocalState : std::uint8_t {
  kFetches,
  kOff,           // by the setting, or the driver knows no processes
  kNotAsked,      // no message was large enough yet
  kOtherHost,     // the peer's address is none of this host's
  kNotReported,   // the peer has not sent its claim (yet)
  kOtherUser,     // another user's process, or a protected one
  kOtherPids,     // in another PID namespace
  kNotPermitted,  // the kernel refuses
  kNoProcess,     // there is no such process
  kNoBeacon,      // its memory does not match the peer's claim
};
inline constexpr std::array<std::string_view, 10> kLocalStateNames{
    "fetch",         "off",        "nothing large yet", "other host", "not stated", "other user", "other pid namespace",
    "not permitted", "no process", "no beacon"};
[[nodiscard]] constexpr std::string_view name(LocalState state) {
  return kLocalStateNames[static_cast<std::size_t>(state)];
}

enum class FetchResult : std::uint8_t {
  kDone,
  kGone,   // the peer's process or queue pair no longer exists
  kFault,  // it exists, but not all of that memory can be read
};

class LocalMemory {
 public:
  virtual ~LocalMemory() = default;
  // Pid and namespace of this process; the queue pair fills in the rest.
  [[nodiscard]] virtual LocalClaim self() const = 0;
  // True if the peer may be a process of this host.
  [[nodiscard]] virtual bool is_here(const IpAddress& peer) const = 0;
  // Checks the claim, and that its process's memory may be read. The claim came from UDP port `source_port`.
  [[nodiscard]] virtual LocalState examine(const LocalClaim& claim, std::uint16_t source_port) = 0;
  // Copies `from`, in this order, to `to` (as many bytes, writable memory of this process). Then compares the beacon:
  // the data is valid only after kDone.
  [[nodiscard]] virtual FetchResult fetch(const LocalClaim& peer, std::span<const LocalPiece> from,
                                          std::span<const Slice> to) = 0;
};

}  // namespace brdma
