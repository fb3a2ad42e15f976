// verbs/objects.h - verbs objects: libibverbs' structure first (with room to spare, as it differs between releases),
// ours behind it. A pointer to one is a pointer to the other.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "abi/abi.h"
#include "completions/completion_rings.h"
#include "completions/lazy_poller.h"
#include "context/open_device.h"
#include "device/engine.h"
#include "events/event_pipe.h"
#include "io/system/file_descriptor.h"
#include "memory_regions/mapped_memory.h"
#include "qp/state/limits.h"
#include "work_requests/work_builder.h"
#include "write_events/write_queue.h"

namespace brdma::provider {

struct XrcDomainObject;

struct ThreadDomainObject {
  ibv_td core{};
  std::size_t shard = 0;      // of objects made for its thread
  std::uint32_t parents = 0;  // referring parent domains; SharedDevice::objects() held
};

struct ProtectionDomainObject {
  ibv_pd core{};
  std::vector<ProtectionDomain*> engine;  // in each shard
  // Of a parent domain: its protection domain. Of a protection domain: `parents` counts its parent domains.
  ProtectionDomainObject* base = nullptr;
  ThreadDomainObject* td = nullptr;
  std::uint32_t parents = 0;  // SharedDevice::objects() held
  // Of a parent domain: where its objects' memory comes from (placed.h), and how many objects are there.
  struct Allocators {
    void* (*alloc)(ibv_pd* pd, void* context, std::size_t bytes, std::size_t alignment, std::uint64_t type) = nullptr;
    void (*free)(ibv_pd* pd, void* context, void* memory, std::uint64_t type) = nullptr;
    void* context = nullptr;
  } allocators{};
  std::atomic<std::uint32_t> placed{0};
  ProtectionDomainObject* imported = nullptr;  // another structure's object: that one, if it is still there
};

// Of any number of structures; each region holds it.
struct DeviceMemory {
  std::shared_ptr<MappedMemory> mapping;
  io::FileDescriptor pages;  // of its memory
  std::uint32_t handle = 0;
  std::uint32_t regions = 0;  // made of it; SharedDevice::objects() held, as for the next
  bool freed = false;
};

struct MemoryRegionObject {
  abi::VerbsMr core{};
  std::vector<MemoryRegion*> engine;            // in each shard
  WatchNumber watch = 0;                        // SharedDevice::objects() held
  std::shared_ptr<MappedMemory> mapping;        // null: the program's own memory, or none
  std::shared_ptr<DeviceMemory> device_memory;  // likewise
  MemoryRegionObject* imported = nullptr;       // another structure's object: that one, if it is still there
};

struct DeviceMemoryObject {
  union {
    ibv_dm dm;
    std::byte reserve[64];  // the library's structure of the largest release has 40
  } core{.reserve = {}};
  std::shared_ptr<DeviceMemory> memory;
  bool imported = false;
};

struct AddressHandleObject {
  ibv_ah core{};
  AddressHandle address;
};

struct MemoryWindowObject {
  ibv_mw core{};
  MemoryRegion* engine = nullptr;
};

struct CompletionQueueObject {
  union {
    ibv_cq cq;
    ibv_cq_ex cq_ex;  // if it has a poller
    std::byte reserve[abi::kObjectReserve];
  } core{.reserve = {}};
  CompletionRings rings;
  bool alone = true;                            // the device has one shard
  std::unique_ptr<LazyPoller> poller;           // of ibv_create_cq_ex()
  ProtectionDomainObject* placed_by = nullptr;  // placed.h
  CqOptions options;                            // of rings to come
  std::shared_ptr<EventPipe> channel;           // null: none
  int channel_fd = -1;                          // the program's descriptor
  // Events written and not purged; OpenDevice::events() held. Destruction waits until the program has acknowledged as
  // many.
  std::uint32_t completion_events_written = 0;
  std::uint32_t async_events_written = 0;

  void write_event();  // OpenDevice::events() held
};

struct QueuePairObject {
  union {
    ibv_qp qp;
    ibv_qp_ex qp_ex;  // if it has a builder
    std::byte reserve[abi::kQpReserve];
  } core{.reserve = {}};
  Context* context = nullptr;  // of its shard
  QueuePair* engine = nullptr;
  ProtectionDomainObject* placed_by = nullptr;  // placed.h
  std::unique_ptr<WorkBuilder> builder;         // of ibv_wr_* functions
  std::uint32_t async_events_written = 0;       // as above
  bool signal_all = false;
  // Granted limits: checked before a list of that length is read.
  std::uint8_t send_sges_max = 0, receive_sges_max = 0;
  std::uint8_t shard = 0;
  XrcDomainObject* xrcd = nullptr;  // of an XRC target
  std::vector<IpAddress> groups;    // its multicast groups; SharedDevice::objects() held
};

struct SharedReceiveQueueObject {
  union {
    ibv_srq srq;
    std::byte reserve[abi::kObjectReserve];
  } core{.reserve = {}};
  Context* context = nullptr;  // of its shard
  SharedReceiveQueue* engine = nullptr;
  XrcDomainObject* xrcd = nullptr;  // null: of the basic kind
  std::size_t shard = 0;
  std::uint32_t async_events_written = 0;       // as above
  SrqAttributes granted;                        // at creation
  ProtectionDomainObject* placed_by = nullptr;  // placed.h
};

static_assert(qp::kSgesMax <= UINT8_MAX);

// The address of the library's part is the object's. With clang a class with a std::unique_ptr is not of standard
// layout; these have neither bases nor virtual functions, so both compilers know the offset all the same.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
template <class... Objects>
inline constexpr bool kCoreFirst = ((offsetof(Objects, core) == 0) && ...);
#pragma GCC diagnostic pop
static_assert(kCoreFirst<ThreadDomainObject, ProtectionDomainObject, MemoryRegionObject, AddressHandleObject>);
static_assert(kCoreFirst<MemoryWindowObject, DeviceMemoryObject, CompletionQueueObject, QueuePairObject,
                         SharedReceiveQueueObject>);

inline ThreadDomainObject& object_of(ibv_td* td) { return *reinterpret_cast<ThreadDomainObject*>(td); }
inline ProtectionDomainObject& object_of(ibv_pd* pd) { return *reinterpret_cast<ProtectionDomainObject*>(pd); }
inline MemoryRegionObject& object_of(abi::VerbsMr* mr) { return *reinterpret_cast<MemoryRegionObject*>(mr); }
inline DeviceMemoryObject& object_of(ibv_dm* dm) { return *reinterpret_cast<DeviceMemoryObject*>(dm); }
inline AddressHandleObject& object_of(ibv_ah* ah) { return *reinterpret_cast<AddressHandleObject*>(ah); }
inline MemoryWindowObject& object_of(ibv_mw* mw) { return *reinterpret_cast<MemoryWindowObject*>(mw); }
inline CompletionQueueObject& object_of(ibv_cq* cq) { return *reinterpret_cast<CompletionQueueObject*>(cq); }
inline SharedReceiveQueueObject& object_of(ibv_srq* srq) { return *reinterpret_cast<SharedReceiveQueueObject*>(srq); }
inline QueuePairObject& object_of(ibv_qp* qp) { return *reinterpret_cast<QueuePairObject*>(qp); }

// The shard of objects made in this domain: its thread's. None: any.
[[nodiscard]] inline std::optional<std::size_t> shard_of(const ProtectionDomainObject& pd) {
  return pd.td == nullptr ? std::nullopt : std::optional(pd.td->shard);
}

// Waits until the program has acknowledged `written` events of an object (verbs manual: destroying blocks until then).
void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& cond, const std::uint32_t& completed,
                               std::uint32_t written);

// For operations that answer a pointer.
template <class T = void>
T* fail(int error) {
  errno = error;
  return nullptr;
}

}  // namespace brdma::provider
