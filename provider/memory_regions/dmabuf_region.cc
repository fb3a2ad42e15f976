// Regions of buffers that a descriptor names (dma-buf). Packets are copied by the processor, so the buffer must be one
// that it may map: udmabuf makes such ones of a program's memory, and a memfd is one itself.
#include <cerrno>
#include <mutex>
#include <string>

#include "io/system/fault_handler.h"
#include "memory_regions/regions.h"
#include "plugin/libibverbs.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {

extern "C" {

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd, int access) {
  if (length == 0 || (access & IBV_ACCESS_ON_DEMAND) != 0) return fail<ibv_mr>(EINVAL);
  io::keep_fault_handler();  // the buffer may be cut short later
  auto mapping = MappedMemory::map(fd, offset, length, (access & kWrites) != 0);
  if (!mapping) {
    const int error = mapping.reason().error();
    if (error == EOPNOTSUPP) {
      complain("descriptor " + std::to_string(fd) +
               " names no buffer that the processor may map: register a buffer of udmabuf or a memfd, or copy");
    }
    return fail<ibv_mr>(error);
  }
  const std::lock_guard held(device_of(pd->context).objects());
  const RegionOrigin origin{.type = RegionType::kMapped,
                            .address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(offset)),
                            .length = length,
                            .access = access,
                            .mapping = mapping.value()};
  return add_region(pd, origin, mapping.value()->bytes().data(), (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova);
}

}  // extern "C"

}  // namespace brdma::provider::verbs
