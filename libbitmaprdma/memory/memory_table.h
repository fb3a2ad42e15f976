// memory/memory_table.h - protection domains, memory regions and their keys; every access to application memory on
// behalf of a work request or a peer is checked here first.
//   key, 32 bits, random, never 0:  (slot index << 12 | 12 random bits) ^ a secret of the table
// so a lookup is one array access and a compare, a peer cannot guess a key from another one's region, and a key that
// was removed stays wrong when its slot is used again.
// Errors: Status with the verbs manual's errno value, nothing changed; a peer's bad access is a Fault.
// Limits: kRegionsMax regions. Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "base/result.h"
#include "bitmaprdma/types.h"

namespace brdma {

class ProtectionDomain {
 public:
  std::uint32_t number = 0;
  std::uint32_t users = 0;  // regions and queue pairs; dealloc answers EBUSY while > 0
};

class MemoryRegion {
 public:
  ProtectionDomain* pd = nullptr;
  std::uint64_t address = 0;  // where the bytes are
  std::uint64_t iova = 0;     // how requests name the first of them
  std::uint64_t length = 0;
  std::uint32_t access = 0;
  std::uint32_t key = 0;  // lkey == rkey
  bool watched = false;   // arrivals of WRITEs are told, with `watcher`
  void* watcher = nullptr;
};

namespace memory {

enum class Fault : std::uint8_t { kNone, kBadKey, kWrongDomain, kOutOfBounds, kNoPermission };

inline constexpr std::uint32_t kRegionsMax = 1u << 20;

class MemoryTable {
 public:
  explicit MemoryTable(Random random);
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  ProtectionDomain* alloc_pd();
  Status dealloc_pd(ProtectionDomain* pd);  // EINVAL: not ours; EBUSY: in use
  // Length 0 is allowed (as rxe does): such a region resolves nothing but empty accesses. EINVAL: not our domain, an
  // unknown access bit, remote write or atomics without local write, an end beyond the address space. ENOMEM: full.
  Result<MemoryRegion*, Status> add(ProtectionDomain* pd, std::uint64_t address, std::uint64_t length,
                                    std::uint64_t iova, std::uint32_t access);
  Status remove(MemoryRegion* region);  // one that add() gave, once; EINVAL: another table's
  [[nodiscard]] std::size_t regions() const;
  [[nodiscard]] std::vector<MemoryRegion> list() const;             // copies, for whoever asks
  Status watch(MemoryRegion* region, bool watched, void* watcher);  // EINVAL: another table's
  [[nodiscard]] std::size_t watched() const { return watched_; }    // how many regions
  [[nodiscard]] const MemoryRegion* find(std::uint32_t key) const;  // null: none of that key
  // Changes when a region goes: what resolve() gave before may not be used any more.
  [[nodiscard]] std::uint64_t version() const { return version_; }

  // Resolves [address, address + length) under `key` for `needed` access (kAccess... bits; 0 = local read); addresses
  // count from the region's iova. On kNone `*bytes` points to the memory. Length 0 resolves without looking at key or
  // address, to null (IBTA: an R_Key is not checked for a zero-length access).
  [[nodiscard]] Fault resolve(const ProtectionDomain* pd, std::uint32_t key, std::uint64_t address,
                              std::uint64_t length, std::uint32_t needed, std::byte** bytes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::uint64_t version_ = 0;
  std::size_t watched_ = 0;
};

}  // namespace memory
}  // namespace brdma
