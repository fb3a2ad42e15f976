// memory_regions/regions.h - regions of any origin: the program's own memory, device memory, a buffer that a descriptor
// names, or none. All are regions of the engine, in every shard, under the same keys.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "context/open_device.h"
#include "device/engine.h"
#include "memory_regions/mapped_memory.h"

namespace brdma::provider {

struct DeviceMemory;
struct MemoryRegionObject;

// enum ibv_mr_type of libibverbs' plugins: what it does with a region's addresses. Only those of the first are the
// program's: they are protected from fork(), and may be registered again.
enum class RegionType : std::uint32_t { kMemory = 0, kNull = 1, kImported = 2, kMapped = 3 };

struct RegionOrigin {
  RegionType type = RegionType::kMemory;
  void* address = nullptr;  // as ibv_mr shows it
  std::size_t length = 0;   // likewise
  int access = 0;
  std::shared_ptr<MappedMemory> mapping{};  // lives as long as the region
  std::shared_ptr<DeviceMemory> device_memory{};
};

// Calls `act` for each shard's engine, one after the other. Their tables see the same calls, so all refuse alike.
// SharedDevice::objects() held.
Status in_all(Shards& shards, const std::function<Status(Engine&, std::size_t)>& act);

// `make` makes the region in one shard. SharedDevice::objects() held. Null with errno.
using MakeRegion = std::function<Result<MemoryRegion*, Status>(Engine&, ProtectionDomain*)>;
ibv_mr* add_region(ibv_pd* pd, const RegionOrigin& origin, const MakeRegion& make);
// A region of `bytes` at `at` that requests address from `iova` on.
ibv_mr* add_region(ibv_pd* pd, const RegionOrigin& origin, const void* at, std::uint64_t iova);

// device_memory.cc: a structure for that memory. objects() held.
ibv_dm* make_device_memory_object(ibv_context* context, const std::shared_ptr<DeviceMemory>& memory, bool imported);

}  // namespace brdma::provider
