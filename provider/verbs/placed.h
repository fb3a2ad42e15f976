// verbs/placed.h - objects of a parent domain with allocators (ibv_alloc_parent_domain) are in the memory that the
// program's allocator gives for them: queue pairs, shared receive queues, extended completion queues. Rings of the
// engine are not: it makes them longer while it works. The program's functions are called without a lock of ours.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "verbs/objects.h"

namespace brdma::provider {

// resource_type of the program's functions: its upper half names a driver of the kernel, and we have none.
constexpr std::uint64_t resource_type(const QueuePairObject*) { return 0; }
constexpr std::uint64_t resource_type(const SharedReceiveQueueObject*) { return 3; }
constexpr std::uint64_t resource_type(const CompletionQueueObject*) { return 4; }

template <class Object>
void delete_object(Object* object) {
  ProtectionDomainObject* const pd = object->placed_by;
  if (pd == nullptr) {
    delete object;
    return;
  }
  object->~Object();
  pd->allocators.free(&pd->core, pd->allocators.context, object, resource_type(object));
  --pd->placed;
}

struct ObjectDeleter {
  template <class Object>
  void operator()(Object* object) const {
    delete_object(object);
  }
};
template <class Object>
using NewObject = std::unique_ptr<Object, ObjectDeleter>;

// `pd`: null, or the domain whose allocator is called if it has one. Null with errno: ENOMEM, it gave nothing; EINVAL,
// its memory is not aligned as requested.
template <class Object>
NewObject<Object> make_object(ProtectionDomainObject* pd) {
  constexpr std::size_t kAlignment = 64;
  static_assert(alignof(Object) <= kAlignment);
  void* given = IBV_ALLOCATOR_USE_DEFAULT;
  const std::uint64_t type = resource_type(static_cast<Object*>(nullptr));
  if (pd != nullptr && pd->allocators.alloc != nullptr)
    given = pd->allocators.alloc(&pd->core, pd->allocators.context, sizeof(Object), kAlignment, type);
  if (given == IBV_ALLOCATOR_USE_DEFAULT) return NewObject<Object>(new Object);
  if (given == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  if (reinterpret_cast<std::uintptr_t>(given) % kAlignment != 0) {
    pd->allocators.free(&pd->core, pd->allocators.context, given, type);
    errno = EINVAL;
    return nullptr;
  }
  NewObject<Object> made(::new (given) Object);
  made->placed_by = pd;
  ++pd->placed;
  return made;
}

}  // namespace brdma::provider
