// base/local_memory.h - how an engine reads the memory of another process of this machine (docs/local.md). The engine
// knows no processes: who drives it says which there are, io by process_vm_readv(), the simulator by memcpy().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/datagram.h"
#include "base/ip_address.h"

namespace brdma {

// What a queue pair shows of itself in its process's memory while it sends, and takes away before it tells its program
// that anything is over. Who fetches data compares it after the data: then they were those of the queue pair.
struct LocalBeacon {
  static constexpr std::uint64_t kMagic = 0x6272646d612d6c31;  // "brdma-l1"
  std::uint64_t magic = 0;                                     // 0: dark
  std::array<std::uint64_t, 2> nonce{};

  friend bool operator==(const LocalBeacon&, const LocalBeacon&) = default;
};
static_assert(sizeof(LocalBeacon) == 24);

// Where the beacon is, and what it shows; told in CAPS.
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

// Why data of a peer is fetched from its memory, or why not.
enum class LocalState : std::uint8_t {
  kFetches,
  kOff,           // by the setting, or whoever drives the engine knows no processes
  kNotAsked,      // no message was large enough yet
  kOtherHost,     // the peer's address is none of this host's
  kNotReported,   // the peer has said nothing of itself (yet)
  kOtherUser,     // another user's process, or one that is kept from being read
  kOtherPids,     // in another namespace of process numbers
  kNotPermitted,  // the kernel does not let us
  kNoProcess,     // there is no such process
  kNoBeacon,      // its memory is not what the peer says
};
inline constexpr std::array<std::string_view, 10> kLocalStateNames{
    "fetch",         "off",        "nothing large yet", "other host", "not told", "other user", "other pid namespace",
    "not permitted", "no process", "no beacon"};
[[nodiscard]] constexpr std::string_view name(LocalState state) {
  return kLocalStateNames[static_cast<std::size_t>(state)];
}

enum class FetchResult : std::uint8_t {
  kDone,
  kGone,   // the peer's process or queue pair is not there any more
  kFault,  // it is there, but not all of that memory can be read
};

class LocalMemory {
 public:
  virtual ~LocalMemory() = default;
  // Pid and namespace of this process; the rest is the queue pair's to fill in.
  [[nodiscard]] virtual LocalClaim self() const = 0;
  // May the peer be a process of this host?
  [[nodiscard]] virtual bool is_here(const IpAddress& peer) const = 0;
  // Whether the claim holds, and its process's memory may be read. Who made it sent it from `source_port`.
  [[nodiscard]] virtual LocalState examine(const LocalClaim& claim, std::uint16_t source_port) = 0;
  // Copies `from`, in this order, to `to` (as many bytes, memory of this process that may be written). Then compares
  // the beacon: what was written is worth something only after kDone.
  [[nodiscard]] virtual FetchResult fetch(const LocalClaim& peer, std::span<const LocalPiece> from,
                                          std::span<const Slice> to) = 0;
};

}  // namespace brdma
