// memory/memory_table.h - protection domains, memory regions, memory windows and their keys; every access to
// application memory on behalf of a work request or a peer is checked here first.
//   key, 32 bits, random, never 0:  (slot index << 12 | 12 random bits) ^ a secret of the table
// so a lookup is one array access and a compare, a peer cannot guess a key from another one's region, and a removed key
// stays wrong when its slot is used again. The low 8 bits of a window's key are the program's: each binding brings a
// key whose other bits are the window's original ones. Tables of one seed with the same order of add(), remove(),
// add_window() and remove_window() give the same keys: so a region can be in several (bitmaprdma/context.h,
// open_shards).
// Errors: Status with the verbs manual's errno value, nothing changed; a peer's bad access is a Fault.
// Limits: kRegionsMax regions, as many windows. Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/secret_random.h"
#include "bitmaprdma/types.h"
#include "memory/guard.h"

namespace brdma {

class ProtectionDomain {
 public:
  std::uint32_t number = 0;
  std::uint32_t users = 0;  // regions, windows, queue pairs, shared receive queues; dealloc returns EBUSY while > 0
};

// A memory window is a region that lends another region's bytes, to peers only; unbound, it has none. A null region has
// every address: reads give zeros, and what is written is lost.
class MemoryRegion {
 public:
  ProtectionDomain* pd = nullptr;
  std::uint64_t address = 0;  // of the bytes
  std::uint64_t iova = 0;     // address of the first byte in requests
  std::uint64_t length = 0;
  std::uint32_t access = 0;
  std::uint32_t key = 0;  // lkey == rkey
  bool watched = false;   // arrivals of WRITEs are reported, with `watcher`
  void* watcher = nullptr;

  std::uint32_t windows = 0;  // bound to it: it cannot be removed

  bool window = false;
  bool null = false;
  std::uint64_t sink = 0;          // of a null region: where writes go; `address` has the zeros
  bool type2 = false;              // of a window: bound by a work request, to one queue pair
  MemoryRegion* lender = nullptr;  // of a window; null: not bound
  std::uint32_t qpn = 0;           // of a bound window of type 2: only this queue pair's peer has access

  // Is [at, at + bytes), as requests name it, inside? An address before it wraps to something huge: one comparison for
  // both ends.
  [[nodiscard]] bool covers(std::uint64_t at, std::uint64_t bytes) const {
    const std::uint64_t offset = at - iova;
    return offset <= length && bytes <= length - offset;
  }
  [[nodiscard]] std::byte* bytes_at(std::uint64_t at) const {
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address + (at - iova)));
  }
};

namespace memory {

enum class Fault : std::uint8_t {
  kNone,
  kBadKey,
  kWrongDomain,
  kOutOfBounds,
  kNoPermission,
  kNotThere,  // the program has unmapped it, or lost its own write permission
};

inline constexpr std::uint64_t kNullBytesMax = 1u << 30;  // of one access to a null region: the longest message
inline constexpr std::uint32_t kRegionsMax = 1u << 19, kWindowsMax = 1u << 19;

// The accessor: the domain, and the queue pair if it acts for a peer.
struct Accessor {
  explicit Accessor(const ProtectionDomain* domain, std::uint32_t queue_pair = 0) : pd(domain), qpn(queue_pair) {}
  const ProtectionDomain* pd;
  std::uint32_t qpn;
};

// The bytes and rights that a window lends.
struct Binding {
  std::uint32_t key = 0;                  // the window's key from now on
  std::uint32_t lkey = 0;                 // of the region
  std::uint64_t address = 0, length = 0;  // as that region is addressed
  std::uint32_t access = 0;               // kAccessRemote..., kAccessZeroBased: its addresses count from 0
};

// enum ibv_rereg_mr_flags
inline constexpr std::uint32_t kChangeTranslation = 1, kChangeDomain = 2, kChangeAccess = 4;

class MemoryTable {
 public:
  explicit MemoryTable(SecretRandom random);
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  ProtectionDomain* alloc_pd();
  Status dealloc_pd(ProtectionDomain* pd);  // EINVAL: not ours; EBUSY: in use
  // Length 0 is allowed (as rxe does): such a region resolves nothing but empty accesses. EINVAL: not our domain, an
  // unknown access bit, remote write or atomics without local write, an end beyond the address space. ENOMEM: full.
  Result<MemoryRegion*, Status> add(ProtectionDomain* pd, std::uint64_t address, std::uint64_t length,
                                    std::uint64_t iova, std::uint32_t access);
  // A null region: for work requests of its domain only, of any address. `zeros` and `sink` are memory of
  // kNullBytesMax bytes each, of the caller; nobody reads the second. EINVAL, ENOMEM as in add().
  Result<MemoryRegion*, Status> add_null(ProtectionDomain* pd, const std::byte* zeros, std::byte* sink);
  Status remove(MemoryRegion* region);  // one that add() gave, once; EINVAL: another table's; EBUSY: windows are bound
  // Other bytes, domain or access under the same key; `mask` selects the fields of `to`. EBUSY: windows are bound;
  // EINVAL as in add(), or a null region; nothing changed.
  Status change(MemoryRegion* region, std::uint32_t mask, const MemoryRegion& to);

  // --- windows ---
  Result<MemoryRegion*, Status> add_window(ProtectionDomain* pd, bool type2);  // EINVAL, ENOMEM
  Status remove_window(MemoryRegion* window);                                  // bound or not
  // Executes a work request's bind. False: not allowed (IBTA 10.6.7.2), nothing changed. A window of type 1 may be
  // bound again at any time, to nothing by length 0; one of type 2 only while it is not bound.
  bool bind(const Accessor& who, const Binding& binding);
  // Invalidates a bound window of type 2, for its queue pair or that one's peer. False: no such key.
  bool invalidate(const Accessor& who, std::uint32_t key);
  void forget_queue_pair(std::uint32_t qpn);  // it is destroyed; its bindings end

  [[nodiscard]] std::size_t regions() const;
  [[nodiscard]] std::vector<MemoryRegion> list() const;             // copies, for management
  [[nodiscard]] std::vector<ProtectionDomain> domains() const;      // likewise
  Status watch(MemoryRegion* region, bool watched, void* watcher);  // EINVAL: another table's
  [[nodiscard]] std::size_t watched() const { return watched_; }    // how many regions
  [[nodiscard]] const MemoryRegion* find(std::uint32_t key) const;  // null: no such key
  // Changes when a region is removed or replaced: earlier results of resolve() become invalid.
  [[nodiscard]] std::uint64_t version() const { return version_; }

  // Resolves [address, address + length) under `key` for `needed` access (kAccess... bits; 0 = local read); addresses
  // count from the region's iova. On kNone `*bytes` points to the memory. Length 0 resolves to null without looking at
  // key or address (IBTA: an R_Key is not checked for a zero-length access).
  [[nodiscard]] Fault resolve(const Accessor& who, std::uint32_t key, std::uint64_t address, std::uint64_t length,
                              std::uint32_t needed, std::byte** bytes) const;

  // Called when registered memory was first found missing on a read (memory/guard.h): from then on memory is probed
  // before a packet is built from it, which shows whose memory is missing.
  void be_careful() { careful_ = true; }
  [[nodiscard]] bool careful() const { return careful_; }
  [[nodiscard]] bool holds(const void* at, std::size_t bytes) const {
    if (!careful_) [[likely]]
      return true;
    return can_read(at, bytes);
  }

 private:
  void unbind(MemoryRegion* window);
  void release_slot(std::uint32_t key);

  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::uint64_t version_ = 0;
  std::size_t watched_ = 0;
  std::size_t bound_type2_ = 0;
  bool careful_ = false;
};

}  // namespace memory
}  // namespace brdma
