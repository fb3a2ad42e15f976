// io/daemon/lease_protocol.h - protocol between a process and brdmad over the abstract stream socket "@brdmad".
//
// One socket serves two protocols; the first byte selects:
//   'B'  a LeaseRequest, answered by a LeaseReply with descriptors attached when error is 0: receive socket, statistics
//        page, device/device_use.h's table, whose row is the slot, lifeline, and the vault where the process may have
//        it. The lifeline closes when brdmad is dead, which the connection need not do: the vault keeps it open
//        (docs/explanation/daemon.md). A later brdmad sends its own, with an empty line. The connection then stays open
//        for the lease's life, and brdmad sends queries over it: one JSON object a line, an empty line before it,
//        answered by one on one line (io/management/management.h). Both must ignore other lines (a restarted worker
//        repeats a reply that may have been lost, or sees half an answer).
//   'B'  likewise a SlotRequest, by a process that has a lease and needs more queue pair numbers than its slot has:
//        answered by a SlotReply; packets to its slot come to the lease's socket from then on.
//   '{'  a JSON object on one line, answered by one on one line; any number of them.
// Numbers in host order: both ends are on one machine. Text is NUL-terminated and cut to fit.
// Versioned by kLeaseVersion (a change of a struct, or of the meaning of QP numbers) and, for the statistics page, by
// its layout hash.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "device/device_use.h"
#include "trace/counters.h"
#include "trace/journal.h"

namespace brdma::io {

inline constexpr std::string_view kDaemonName = "brdmad";           // abstract: a NUL byte stands before it in sun_path
inline constexpr std::string_view kDaemonLifeName = "brdmad.life";  // a datagram socket as long as one lives
inline constexpr std::uint32_t kLeaseMagic = 0x4C445242;            // "BRDL" in memory
inline constexpr std::uint32_t kSlotMagic = 0x53445242;             // "BRDS" in memory
inline constexpr std::uint16_t kLeaseVersion = 6;
inline constexpr std::size_t kLeaseDescriptors = 5;  // at most
inline constexpr std::uint32_t kSlotBits = 13;       // of a QP number's 24; the others number the queue pairs of a slot
inline constexpr std::uint32_t kSlotCount = 1u << kSlotBits;
inline constexpr std::uint32_t kFirstLeasableSlot = 2;  // 0 and 1 hold QP 0 and QP 1, which are the daemon's
[[nodiscard]] constexpr bool is_leasable(std::uint32_t slot) { return slot >= kFirstLeasableSlot && slot < kSlotCount; }
inline constexpr std::size_t kQueryLineMax = 64 * 1024;
inline constexpr std::size_t kSettingsMax = 2048;
inline constexpr std::size_t kManagementAnswerMax = 15u << 20;  // of one process; longer lists are cut

struct LeaseRequest {
  std::uint32_t magic = kLeaseMagic;
  std::uint16_t version = kLeaseVersion;
  std::uint16_t reserved = 0;
  std::uint32_t bytes = sizeof(LeaseRequest);
  std::uint32_t pid = 0;  // used where the kernel does not know it (another PID namespace); for display only
  std::uint64_t statistics_layout = 0;
  std::uint32_t statistics_bytes = sizeof(Statistics);
  std::uint32_t reserved2 = 0;
  std::array<char, 16> program{};  // for display
  std::array<char, 64> device{};   // fault and remedy, when error is not 0
};

struct LeaseReply {
  std::uint32_t magic = kLeaseMagic;
  std::uint16_t version = kLeaseVersion;
  std::uint16_t slot_bits = kSlotBits;
  std::uint32_t bytes = sizeof(LeaseReply);
  std::int32_t error = 0;  // errno value; 0: descriptors are attached
  std::uint32_t slot = 0;
  std::uint32_t dual_stack = 0;
  std::uint64_t lease_id = 0;
  std::array<char, 512> message{};            // fault and remedy, when error is not 0
  std::array<char, kSettingsMax> settings{};  // set at run time for the device: lines `key=value`
};

struct SlotRequest {
  std::uint32_t magic = kSlotMagic;
  std::uint16_t version = kLeaseVersion;
  std::uint16_t reserved = 0;
  std::uint64_t lease_id = 0;
  std::uint32_t slot = 0;   // the lease's
  std::uint32_t slots = 1;  // their present number. A repeated request has the same one: an answer may be lost
};

struct SlotReply {
  std::uint32_t magic = kSlotMagic;
  std::uint16_t version = kLeaseVersion;
  std::uint16_t reserved = 0;
  std::int32_t error = 0;  // errno value
  std::uint32_t slot = 0;
  std::array<char, 512> message{};  // fault and remedy, when error is not 0
};

static_assert(std::is_trivially_copyable_v<SlotRequest> && sizeof(SlotRequest) == 24);
static_assert(std::is_trivially_copyable_v<SlotReply> && sizeof(SlotReply) == 528);
static_assert(std::is_trivially_copyable_v<LeaseRequest> && sizeof(LeaseRequest) == 112);
static_assert(std::is_trivially_copyable_v<LeaseReply> && sizeof(LeaseReply) == 2592);

static_assert(sizeof(UseTable::rows) == kSlotCount * sizeof(UseRow));

// Limits in force; their uses are in the table's row.
struct Gauges {
  std::uint64_t queue_pairs_max = 0, state_bytes_max = 0;
};

// The memory behind the statistics descriptor: sealed against resizing. The part that does not depend on the list of
// counters comes first: so a library with other counters still reports its events.
struct StatisticsPage {
  trace::EventRing events;  // brdmad writes `read`
  Gauges gauges;
  alignas(4096) Statistics statistics;
};

template <std::size_t N>
void put_text(std::array<char, N>& to, std::string_view text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::copy_n(text.begin(), length, to.begin());
  std::fill(to.begin() + static_cast<std::ptrdiff_t>(length), to.end(), '\0');
}

template <std::size_t N>
[[nodiscard]] std::string_view get_text(const std::array<char, N>& from) {
  return {from.data(), static_cast<std::size_t>(std::find(from.begin(), from.end(), '\0') - from.begin())};
}

}  // namespace brdma::io
