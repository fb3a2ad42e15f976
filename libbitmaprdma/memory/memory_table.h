// memory/memory_table.h - protection domains, memory regions and their keys; every access to application memory on
// behalf of a work request or a peer is checked here first. Keys: 32 bits, random, never 0; index in the upper bits, so
// that a lookup is one array access and a compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

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
};

namespace memory {

enum class Fault : std::uint8_t { kNone, kBadKey, kWrongDomain, kOutOfBounds, kNoPermission };

class MemoryTable {
 public:
  explicit MemoryTable(Random random);
  ~MemoryTable();
  ProtectionDomain* alloc_pd();
  Status dealloc_pd(ProtectionDomain* pd);
  Result<MemoryRegion*, Status> add(ProtectionDomain* pd, std::uint64_t address, std::uint64_t length,
                                    std::uint64_t iova, std::uint32_t access);
  Status remove(MemoryRegion* region);

  // Resolves [address, address + length) under `key` for `needed` access (kAccess... bits; 0 = local read).
  // On kNone `*bytes` points to the memory. Length 0 resolves without looking at the key (IBTA 9.7.4.1.3... zero
  // length).
  [[nodiscard]] Fault resolve(const ProtectionDomain* pd, std::uint32_t key, std::uint64_t address,
                              std::uint64_t length, std::uint32_t needed, std::byte** bytes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace memory
}  // namespace brdma
