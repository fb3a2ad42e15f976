// Device memory: of a device without any, pages of their own, shared with forked children, at no address that the
// program knows. It copies them in and out, and registers them with addresses that count from 0.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <mutex>

#include "memory/guard.h"
#include "memory_regions/regions.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider {
namespace verbs {
namespace {

constexpr std::uint64_t kUnit = 4;  // copies begin and end at a multiple of it
constexpr std::uint32_t kLogAlignMax = 12;

// The part of a copy inside the memory; null: it is not inside, or not of whole units.
std::byte* place_of(ibv_dm* dm, std::uint64_t offset, std::size_t length) {
  const std::span<std::byte> all = object_of(dm).memory->mapping->bytes();
  if (offset % kUnit != 0 || length % kUnit != 0 || offset > all.size() || length > all.size() - offset) return nullptr;
  return all.data() + offset;
}

int copy_in(ibv_dm* dm, std::uint64_t offset, const void* from, std::size_t length) {
  if (is_abandoned(dm->context)) return EIO;
  std::byte* const at = place_of(dm, offset, length);
  if (at == nullptr) return EINVAL;
  return memory::copy(at, static_cast<const std::byte*>(from), length) ? 0 : EFAULT;
}

int copy_out(void* to, ibv_dm* dm, std::uint64_t offset, std::size_t length) {
  if (is_abandoned(dm->context)) return EIO;
  const std::byte* const at = place_of(dm, offset, length);
  if (at == nullptr) return EINVAL;
  return memory::copy(static_cast<std::byte*>(to), at, length) ? 0 : EFAULT;
}

// Sealed: whoever gets the descriptor cannot take the pages away.
Result<io::FileDescriptor, Status> make_pages(std::size_t bytes) {
  io::FileDescriptor fd(::memfd_create("brdma-device-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return Status(ENOMEM);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return Status(ENOMEM);
  return fd;
}

}  // namespace
}  // namespace verbs

ibv_dm* make_device_memory_object(ibv_context* context, const std::shared_ptr<DeviceMemory>& memory, bool imported) {
  auto dm = std::make_unique<DeviceMemoryObject>();
  dm->memory = memory;
  dm->imported = imported;
  dm->core.dm = {.context = context,
                 .memcpy_to_dm = &verbs::copy_in,
                 .memcpy_from_dm = &verbs::copy_out,
                 .comp_mask = IBV_DM_MASK_HANDLE,
                 .handle = memory->handle};
  return &dm.release()->core.dm;
}

namespace verbs {

extern "C" {

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* wanted) {
  if (wanted->comp_mask != 0) return fail<ibv_dm>(EOPNOTSUPP);
  if (wanted->length == 0 || wanted->length > kDeviceMemoryMax || wanted->log_align_req > kLogAlignMax)
    return fail<ibv_dm>(EINVAL);
  OpenDevice& device = device_of(context);
  const std::lock_guard held(device.objects());
  Undestroyed& all = device.undestroyed();
  if (wanted->length > kDeviceMemoryMax - all.device_memory_bytes) return fail<ibv_dm>(ENOMEM);
  auto pages = make_pages(wanted->length);
  if (!pages) return fail<ibv_dm>(pages.reason().error());
  auto mapping = MappedMemory::map(pages.value().get(), 0, wanted->length, true);
  if (!mapping) return fail<ibv_dm>(mapping.reason().error());
  auto memory = std::make_shared<DeviceMemory>();
  memory->mapping = mapping.value();
  memory->pages = std::move(pages).value();
  memory->handle = device.next_handle();
  all.device_memory_bytes += wanted->length;
  all.device_memories.insert(memory);
  return make_device_memory_object(context, memory, false);
}

int free_dm(ibv_dm* ibv) {
  DeviceMemoryObject& dm = object_of(ibv);
  {
    OpenDevice& device = device_of(ibv->context);
    const std::lock_guard held(device.objects());
    if (dm.memory->freed) return ENOENT;
    if (dm.memory->regions != 0) return EBUSY;
    dm.memory->freed = true;
    device.undestroyed().device_memory_bytes -= dm.memory->mapping->bytes().size();
    device.undestroyed().device_memories.erase(dm.memory);
  }
  delete &dm;
  return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* ibv, std::uint64_t offset, std::size_t length, unsigned access) {
  const std::shared_ptr<DeviceMemory> memory = object_of(ibv).memory;
  if ((access & IBV_ACCESS_ZERO_BASED) == 0 || pd->context != ibv->context) return fail<ibv_mr>(EINVAL);
  const std::lock_guard held(device_of(pd->context).objects());
  if (memory->freed) return fail<ibv_mr>(ENOENT);
  const std::span<std::byte> all = memory->mapping->bytes();
  if (offset > all.size() || length > all.size() - offset) return fail<ibv_mr>(EINVAL);
  const RegionOrigin origin{.type = RegionType::kMapped,
                            .length = length,
                            .access = static_cast<int>(access),
                            .mapping = memory->mapping,
                            .device_memory = memory};
  ibv_mr* const mr = add_region(pd, origin, all.data() + offset, 0);
  if (mr != nullptr) ++memory->regions;
  return mr;
}

int dm_export_dmabuf_fd(ibv_dm* ibv) {
  const int fd = ::fcntl(object_of(ibv).memory->pages.get(), F_DUPFD_CLOEXEC, 0);
  return fd;
}

}  // extern "C"

}  // namespace verbs
}  // namespace brdma::provider
