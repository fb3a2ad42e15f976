#include "memory/memory_table.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include "base/check.h"

namespace brdma::memory {
namespace {

constexpr std::uint32_t kRandomBits = 12;
static_assert(kRegionsMax == 1u << (32 - kRandomBits));
constexpr std::uint32_t kNoSlot = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kAccessKnown =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessMwBind | kAccessZeroBased;
// IBV_ACCESS_OPTIONAL_RANGE: hints such as relaxed ordering, which a device may ignore.
constexpr std::uint32_t kAccessOptional = 0x3FF0'0000;

bool end_overflows(std::uint64_t start, std::uint64_t length) {
  return length != 0 && start > std::numeric_limits<std::uint64_t>::max() - (length - 1);
}

}  // namespace

struct MemoryTable::Impl {
  // What a lookup needs, flat; `region` is stable in memory for the application's sake.
  struct Slot {
    std::uint32_t key = 0;  // 0: free
    std::uint32_t next_free = kNoSlot;
    std::uint32_t last_random = kNoSlot;  // what its last key had: not used again at once
    std::unique_ptr<MemoryRegion> region;
  };

  explicit Impl(Random source) : random(source), secret(static_cast<std::uint32_t>(random.next())) {}

  [[nodiscard]] std::uint32_t index_of(std::uint32_t key) const { return (key ^ secret) >> kRandomBits; }
  [[nodiscard]] const MemoryRegion* find(std::uint32_t key) const {
    const std::uint32_t index = index_of(key);
    return index < slots.size() && key != 0 && slots[index].key == key ? slots[index].region.get() : nullptr;
  }
  [[nodiscard]] bool owns(const ProtectionDomain* pd) const {
    return std::any_of(domains.begin(), domains.end(), [pd](const auto& own) { return own.get() == pd; });
  }
  std::uint32_t take_slot();
  std::uint32_t new_key(std::uint32_t index);

  Random random;
  std::uint32_t secret;
  std::vector<Slot> slots;
  std::uint32_t free_head = kNoSlot, free_tail = kNoSlot;
  std::size_t used = 0;
  std::vector<std::unique_ptr<ProtectionDomain>> domains;
  std::uint32_t domains_made = 0;
};

// Slots are used again in the order in which they were freed: the longest time before an old key could match.
std::uint32_t MemoryTable::Impl::take_slot() {
  if (free_head == kNoSlot) {
    if (slots.size() == kRegionsMax) return kNoSlot;
    slots.emplace_back();
    return static_cast<std::uint32_t>(slots.size() - 1);
  }
  const std::uint32_t index = free_head;
  free_head = slots[index].next_free;
  if (free_head == kNoSlot) free_tail = kNoSlot;
  return index;
}

std::uint32_t MemoryTable::Impl::new_key(std::uint32_t index) {
  for (;;) {
    const auto low = static_cast<std::uint32_t>(random.below(1u << kRandomBits));
    const std::uint32_t key = (index << kRandomBits | low) ^ secret;
    if (low == slots[index].last_random || key == 0) continue;
    slots[index].last_random = low;
    return key;
  }
}

MemoryTable::MemoryTable(Random random) : impl_(std::make_unique<Impl>(random)) {}
MemoryTable::~MemoryTable() = default;

ProtectionDomain* MemoryTable::alloc_pd() {
  auto pd = std::make_unique<ProtectionDomain>();
  pd->number = impl_->domains_made++;
  return impl_->domains.emplace_back(std::move(pd)).get();
}

Status MemoryTable::dealloc_pd(ProtectionDomain* pd) {
  auto& domains = impl_->domains;
  const auto own = std::find_if(domains.begin(), domains.end(), [pd](const auto& d) { return d.get() == pd; });
  if (own == domains.end()) return Status{EINVAL};
  if (pd->users > 0) return Status{EBUSY};
  domains.erase(own);
  return Status::success();
}

Result<MemoryRegion*, Status> MemoryTable::add(ProtectionDomain* pd, std::uint64_t address, std::uint64_t length,
                                               std::uint64_t iova, std::uint32_t access) {
  if (!impl_->owns(pd)) return Status{EINVAL};
  if ((access & ~(kAccessKnown | kAccessOptional)) != 0) return Status{EINVAL};
  const bool remote_changes = (access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0;
  if (remote_changes && (access & kAccessLocalWrite) == 0) return Status{EINVAL};
  if (end_overflows(address, length) || end_overflows(iova, length)) return Status{EINVAL};
  const std::uint32_t index = impl_->take_slot();
  if (index == kNoSlot) return Status{ENOMEM};

  auto region = std::make_unique<MemoryRegion>();
  region->pd = pd;
  region->address = address;
  region->iova = iova;
  region->length = length;
  region->access = access;
  region->key = impl_->new_key(index);
  Impl::Slot& slot = impl_->slots[index];
  slot.key = region->key;
  slot.next_free = kNoSlot;
  slot.region = std::move(region);
  ++pd->users;
  ++impl_->used;
  return slot.region.get();
}

Status MemoryTable::watch(MemoryRegion* region, bool watched, void* watcher) {
  if (region == nullptr || impl_->find(region->key) != region) return Status{EINVAL};
  if (region->watched) --watched_;
  if (watched) ++watched_;
  region->watched = watched;
  region->watcher = watcher;
  return Status::success();
}

const MemoryRegion* MemoryTable::find(std::uint32_t key) const { return impl_->find(key); }

Status MemoryTable::remove(MemoryRegion* region) {
  if (region == nullptr || impl_->find(region->key) != region) return Status{EINVAL};
  BRDMA_CHECK(region->pd->users > 0);
  if (region->watched) --watched_;
  --region->pd->users;
  --impl_->used;
  const std::uint32_t index = impl_->index_of(region->key);
  impl_->slots[index].key = 0;
  impl_->slots[index].region.reset();
  if (impl_->free_tail != kNoSlot) impl_->slots[impl_->free_tail].next_free = index;
  if (impl_->free_head == kNoSlot) impl_->free_head = index;
  impl_->free_tail = index;
  ++version_;
  return Status::success();
}

std::size_t MemoryTable::regions() const { return impl_->used; }

std::vector<MemoryRegion> MemoryTable::list() const {
  std::vector<MemoryRegion> all;
  for (const Impl::Slot& slot : impl_->slots) {
    if (slot.key != 0) all.push_back(*slot.region);
  }
  return all;
}

Fault MemoryTable::resolve(const ProtectionDomain* pd, std::uint32_t key, std::uint64_t address, std::uint64_t length,
                           std::uint32_t needed, std::byte** bytes) const {
  *bytes = nullptr;
  if (length == 0) return Fault::kNone;
  const MemoryRegion* region = impl_->find(key);
  if (region == nullptr) return Fault::kBadKey;
  if (region->pd != pd) return Fault::kWrongDomain;
  if ((region->access & needed) != needed) return Fault::kNoPermission;
  // address - iova wraps to something huge where the address lies before the region: one comparison for both ends.
  const std::uint64_t offset = address - region->iova;
  if (offset > region->length || length > region->length - offset) return Fault::kOutOfBounds;
  *bytes = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(region->address + offset));
  return Fault::kNone;
}

}  // namespace brdma::memory
