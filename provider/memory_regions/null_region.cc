// Null regions: any address, zeros when read, nothing kept of what is written. All share the process's two ranges of
// addresses: one that reads as zeros and has no memory, one whose few pages are mapped again and again and never read.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "io/system/file_descriptor.h"
#include "memory/memory_table.h"
#include "memory_regions/regions.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
namespace {

constexpr std::size_t kSinkPages = 16 << 20;  // bytes of memory, at most: of one message of that size
static_assert(memory::kNullBytesMax % kSinkPages == 0);

std::byte* reserve(int protection) {
  void* const at =
      ::mmap(nullptr, memory::kNullBytesMax, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

std::byte* make_sink() {
  const io::FileDescriptor pages(::memfd_create("brdma-null-region", MFD_CLOEXEC));
  if (!pages.valid() || ::ftruncate(pages.get(), kSinkPages) != 0) return nullptr;
  std::byte* const range = reserve(PROT_NONE);
  if (range == nullptr) return nullptr;
  for (std::size_t at = 0; at < memory::kNullBytesMax; at += kSinkPages) {
    constexpr int kFlags = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
    if (::mmap(range + at, kSinkPages, PROT_READ | PROT_WRITE, kFlags, pages.get(), 0) != MAP_FAILED) continue;
    ::munmap(range, memory::kNullBytesMax);
    return nullptr;
  }
  return range;
}

// Made with the first null region, and kept. Forked children share the sink, which nobody reads.
struct Ranges {
  std::byte* zeros = nullptr;
  std::byte* sink = nullptr;
};

Ranges ranges() {
  static std::mutex making;
  static Ranges made;
  const std::lock_guard held(making);
  if (made.zeros == nullptr) made.zeros = reserve(PROT_READ);
  if (made.sink == nullptr && made.zeros != nullptr) made.sink = make_sink();
  return made;
}

}  // namespace

extern "C" {

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  const Ranges at = ranges();
  if (at.sink == nullptr) return fail<ibv_mr>(ENOMEM);
  const std::lock_guard held(device_of(pd->context).objects());
  ibv_mr* const mr = add_region(
      pd, {.type = RegionType::kNull, .length = SIZE_MAX, .access = IBV_ACCESS_LOCAL_WRITE},
      [&at](Engine& engine, ProtectionDomain* domain) { return engine.register_null(domain, at.zeros, at.sink); });
  if (mr != nullptr) mr->rkey = 0;  // peers have no access
  return mr;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
