#include "memory/memory_table.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace brdma::memory {
namespace {

constexpr std::uint32_t kRandomBits = 12;
constexpr std::uint32_t kSlotsMax = 1u << (32 - kRandomBits);
static_assert(kRegionsMax + kWindowsMax == kSlotsMax);
constexpr std::uint32_t kNoSlot = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kAccessKnown = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead |
                                       kAccessRemoteAtomic | kAccessMwBind | kAccessZeroBased | kAccessFlushGlobal;
// IBV_ACCESS_OPTIONAL_RANGE: hints such as relaxed ordering, which a device may ignore.
constexpr std::uint32_t kAccessOptional = 0x3FF0'0000;

bool access_valid(std::uint32_t access) {
  if ((access & ~(kAccessKnown | kAccessOptional)) != 0) return false;
  const bool remote_changes = (access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0;
  return !remote_changes || (access & kAccessLocalWrite) != 0;
}

constexpr std::uint32_t kRemote = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
constexpr std::uint32_t kWindowKeyMask = 0xFF;  // of a window's key: chosen by the program

// A window serves peers; one of type 2 only those of its queue pair.
bool lends_to(const MemoryRegion& window, const Accessor& who, std::uint32_t needed) {
  return window.lender != nullptr && (needed & kRemote) != 0 && (!window.type2 || window.qpn == who.qpn);
}

Fault resolve_null(const MemoryRegion& region, std::uint64_t length, std::uint32_t needed, std::byte** bytes) {
  if ((region.access & needed) != needed) return Fault::kNoPermission;
  if (length > kNullBytesMax) return Fault::kOutOfBounds;
  *bytes = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(needed == 0 ? region.address : region.sink));
  return Fault::kNone;
}

// IBTA 10.6.7.2: the region may lend what is asked for.
bool may_lend(const MemoryRegion& lender, const MemoryRegion& window, const Binding& to) {
  if (lender.window || lender.pd != window.pd) return false;
  // Local access is the region's: naming it is allowed and grants nothing, as with hardware.
  if ((lender.access & kAccessMwBind) == 0 || (to.access & ~(kRemote | kAccessZeroBased | kAccessLocalWrite)) != 0)
    return false;
  const bool changes = (to.access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0;
  if (changes && (lender.access & kAccessLocalWrite) == 0) return false;
  return lender.covers(to.address, to.length);
}

bool end_overflows(std::uint64_t start, std::uint64_t length) {
  return length != 0 && start > std::numeric_limits<std::uint64_t>::max() - (length - 1);
}

}  // namespace

struct MemoryTable::Impl {
  // The lookup's fields, flat; `region` is stable in memory for the application's sake.
  struct Slot {
    std::uint32_t key = 0;  // 0: free
    std::uint32_t next_free = kNoSlot;
    std::uint32_t last_random = kNoSlot;  // of its last key: not used again at once
    std::unique_ptr<MemoryRegion> region;
  };

  explicit Impl(SecretRandom source) : random(source), secret(static_cast<std::uint32_t>(random.next())) {}

  [[nodiscard]] std::uint32_t index_of(std::uint32_t key) const { return (key ^ secret) >> kRandomBits; }
  [[nodiscard]] const MemoryRegion* find(std::uint32_t key) const {
    const std::uint32_t index = index_of(key);
    if (index >= slots.size() || key == 0) return nullptr;
    const Slot& slot = slots[index];
    return slot.key == key ? slot.region.get() : nullptr;
  }
  [[nodiscard]] bool owns(const ProtectionDomain* pd) const {
    return std::any_of(domains.begin(), domains.end(), [pd](const auto& own) { return own.get() == pd; });
  }
  [[nodiscard]] MemoryRegion* find(std::uint32_t key) {
    return const_cast<MemoryRegion*>(std::as_const(*this).find(key));
  }
  // The window that may get this key: only the program's bits are other ones. Null: none.
  [[nodiscard]] Slot* window_slot(std::uint32_t key);
  MemoryRegion* put(std::unique_ptr<MemoryRegion> region);
  std::uint32_t take_slot();
  std::uint32_t new_key(std::uint32_t index);

  SecretRandom random;
  std::uint32_t secret;
  std::vector<Slot> slots;
  std::uint32_t free_head = kNoSlot, free_tail = kNoSlot;
  std::size_t used = 0, windows = 0;
  std::vector<std::unique_ptr<ProtectionDomain>> domains;
  std::uint32_t domains_made = 0;
};

MemoryTable::Impl::Slot* MemoryTable::Impl::window_slot(std::uint32_t key) {
  const std::uint32_t index = index_of(key);
  if (index >= slots.size() || key == 0) return nullptr;
  Slot& slot = slots[index];
  if (slot.key == 0 || ((slot.key ^ key) & ~kWindowKeyMask) != 0 || !slot.region->window) return nullptr;
  return &slot;
}

// Slots are reused in the order in which they were freed: an old key stays invalid for as long as possible.
std::uint32_t MemoryTable::Impl::take_slot() {
  if (free_head == kNoSlot) {
    if (slots.size() == kSlotsMax) return kNoSlot;
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
    if (low == slots[index].last_random || (key & ~kWindowKeyMask) == 0) continue;
    slots[index].last_random = low;
    return key;
  }
}

MemoryTable::MemoryTable(SecretRandom random) : impl_(std::make_unique<Impl>(random)) {}
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
  if (!access_valid(access)) return Status{EINVAL};
  if (end_overflows(address, length) || end_overflows(iova, length)) return Status{EINVAL};
  if (impl_->used == kRegionsMax) return Status{ENOMEM};
  auto region = std::make_unique<MemoryRegion>();
  region->pd = pd;
  region->address = address;
  region->iova = iova;
  region->length = length;
  region->access = access;
  ++pd->users;
  ++impl_->used;
  return impl_->put(std::move(region));
}

Result<MemoryRegion*, Status> MemoryTable::add_null(ProtectionDomain* pd, const std::byte* zeros, std::byte* sink) {
  auto added = add(pd, 0, 0, 0, kAccessLocalWrite);
  if (!added) return added;
  MemoryRegion* const region = added.value();
  region->null = true;
  region->address = reinterpret_cast<std::uintptr_t>(zeros);
  region->sink = reinterpret_cast<std::uintptr_t>(sink);
  region->length = std::numeric_limits<std::uint64_t>::max();
  return region;
}

// A free slot exists: regions and windows are counted.
MemoryRegion* MemoryTable::Impl::put(std::unique_ptr<MemoryRegion> region) {
  const std::uint32_t index = take_slot();
  BRDMA_CHECK(index != kNoSlot);
  region->key = new_key(index);
  Slot& slot = slots[index];
  slot.key = region->key;
  slot.next_free = kNoSlot;
  slot.region = std::move(region);
  return slot.region.get();
}

Status MemoryTable::change(MemoryRegion* region, std::uint32_t mask, const MemoryRegion& to) {
  if ((mask & ~(kChangeTranslation | kChangeDomain | kChangeAccess)) != 0 || mask == 0) return Status{EINVAL};
  if (region->null) return Status{EINVAL};
  if (region->windows > 0) return Status{EBUSY};
  if ((mask & kChangeDomain) != 0 && !impl_->owns(to.pd)) return Status{EINVAL};
  if ((mask & kChangeAccess) != 0 && !access_valid(to.access)) return Status{EINVAL};
  if ((mask & kChangeTranslation) != 0 && (end_overflows(to.address, to.length) || end_overflows(to.iova, to.length))) {
    return Status{EINVAL};
  }
  if ((mask & kChangeDomain) != 0) {
    --region->pd->users;
    region->pd = to.pd;
    ++region->pd->users;
  }
  if ((mask & kChangeAccess) != 0) region->access = to.access;
  if ((mask & kChangeTranslation) != 0) {
    region->address = to.address;
    region->iova = to.iova;
    region->length = to.length;
  }
  ++version_;
  return Status::success();
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
  if (region == nullptr || impl_->find(region->key) != region || region->window) return Status{EINVAL};
  BRDMA_CHECK(region->pd->users > 0);
  if (region->windows > 0) return Status{EBUSY};
  if (region->watched) --watched_;
  --region->pd->users;
  --impl_->used;
  release_slot(region->key);
  return Status::success();
}

void MemoryTable::release_slot(std::uint32_t key) {
  const std::uint32_t index = impl_->index_of(key);
  impl_->slots[index].key = 0;
  impl_->slots[index].region.reset();
  if (impl_->free_tail != kNoSlot) impl_->slots[impl_->free_tail].next_free = index;
  if (impl_->free_head == kNoSlot) impl_->free_head = index;
  impl_->free_tail = index;
  ++version_;
}

std::size_t MemoryTable::regions() const { return impl_->used; }

std::vector<MemoryRegion> MemoryTable::list() const {
  std::vector<MemoryRegion> all;
  for (const Impl::Slot& slot : impl_->slots) {
    if (slot.key != 0 && !slot.region->window) all.push_back(*slot.region);
  }
  return all;
}

std::vector<ProtectionDomain> MemoryTable::domains() const {
  std::vector<ProtectionDomain> all;
  for (const auto& domain : impl_->domains) all.push_back(*domain);
  return all;
}

Fault MemoryTable::resolve(const Accessor& who, std::uint32_t key, std::uint64_t address, std::uint64_t length,
                           std::uint32_t needed, std::byte** bytes) const {
  *bytes = nullptr;
  if (length == 0) return Fault::kNone;
  const MemoryRegion* region = impl_->find(key);
  if (region == nullptr) return Fault::kBadKey;
  if (region->pd != who.pd) return Fault::kWrongDomain;
  if (region->window || region->null) [[unlikely]] {
    if (region->null) return resolve_null(*region, length, needed, bytes);
    if (!lends_to(*region, who, needed)) return Fault::kBadKey;
  }
  if ((region->access & needed) != needed) return Fault::kNoPermission;
  if (!region->covers(address, length)) return Fault::kOutOfBounds;
  *bytes = region->bytes_at(address);
  return Fault::kNone;
}

Result<MemoryRegion*, Status> MemoryTable::add_window(ProtectionDomain* pd, bool type2) {
  if (!impl_->owns(pd)) return Status{EINVAL};
  if (impl_->windows == kWindowsMax) return Status{ENOMEM};
  auto window = std::make_unique<MemoryRegion>();
  window->pd = pd;
  window->window = true;
  window->type2 = type2;
  ++pd->users;
  ++impl_->windows;
  return impl_->put(std::move(window));
}

Status MemoryTable::remove_window(MemoryRegion* window) {
  if (window == nullptr || impl_->find(window->key) != window || !window->window) return Status{EINVAL};
  unbind(window);
  --window->pd->users;
  --impl_->windows;
  release_slot(window->key);
  return Status::success();
}

void MemoryTable::unbind(MemoryRegion* window) {
  if (window->lender == nullptr) return;
  --window->lender->windows;
  if (window->type2) --bound_type2_;
  window->lender = nullptr;
  window->access = 0;
  window->length = 0;
  ++version_;
}

bool MemoryTable::bind(const Accessor& who, const Binding& to) {
  Impl::Slot* const slot = impl_->window_slot(to.key);
  if (slot == nullptr) return false;
  MemoryRegion& window = *slot->region;
  if (window.pd != who.pd || (window.type2 && (window.lender != nullptr || to.length == 0))) return false;
  MemoryRegion* const lender = to.length != 0 ? impl_->find(to.lkey) : nullptr;
  if (to.length != 0 && (lender == nullptr || !may_lend(*lender, window, to))) return false;
  unbind(&window);
  window.key = slot->key = to.key;
  ++version_;
  if (lender == nullptr) return true;
  ++lender->windows;
  window.lender = lender;
  window.address = lender->address + (to.address - lender->iova);
  window.iova = (to.access & kAccessZeroBased) != 0 ? 0 : to.address;
  window.length = to.length;
  window.access = to.access & kRemote;
  window.qpn = window.type2 ? who.qpn : 0;
  if (window.type2) ++bound_type2_;
  return true;
}

bool MemoryTable::invalidate(const Accessor& who, std::uint32_t key) {
  MemoryRegion* const window = impl_->find(key);
  if (window == nullptr || !window->window || !window->type2 || window->lender == nullptr) return false;
  if (window->pd != who.pd || window->qpn != who.qpn) return false;
  unbind(window);
  return true;
}

void MemoryTable::forget_queue_pair(std::uint32_t qpn) {
  if (bound_type2_ == 0) return;
  for (Impl::Slot& slot : impl_->slots) {
    if (slot.key != 0 && slot.region->type2 && slot.region->qpn == qpn) unbind(slot.region.get());
  }
}

}  // namespace brdma::memory
