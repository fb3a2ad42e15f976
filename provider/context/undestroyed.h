// context/undestroyed.h - the program's undestroyed objects of one ibv_context. Closing a context destroys them, as in
// the kernel: its queue pairs no longer answer, its regions are unreachable, though other contexts of the process
// continue with the same engine. Thread-safety: SharedDevice::objects() held.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_set>

namespace brdma::provider {

class Shards;
class WriteWatches;
struct CompletionQueueObject;
struct DeviceMemory;
struct MemoryRegionObject;
struct MemoryWindowObject;
struct ProtectionDomainObject;
struct QueuePairObject;
struct SharedReceiveQueueObject;
struct ThreadDomainObject;
struct WriteChannelObject;

struct Undestroyed {
  std::unordered_set<ThreadDomainObject*> thread_domains;
  std::unordered_set<ProtectionDomainObject*> domains;
  std::unordered_set<MemoryRegionObject*> regions;
  std::unordered_set<std::shared_ptr<DeviceMemory>> device_memories;
  std::size_t device_memory_bytes = 0;  // of all of them
  std::unordered_set<MemoryWindowObject*> windows;
  std::unordered_set<CompletionQueueObject*> completion_queues;
  std::unordered_set<SharedReceiveQueueObject*> shared_receive_queues;
  std::unordered_set<QueuePairObject*> queue_pairs;
  std::unordered_set<WriteChannelObject*> write_channels;

  // Removes them from the engines. The program's structures stay allocated: it may still have their addresses.
  void destroy_all(Shards& shards, WriteWatches& watches);
};

}  // namespace brdma::provider
