#include "plugin/libibverbs.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "base/check.h"
#include "plugin/plugin.h"

namespace brdma::provider {
namespace {

constexpr int kPabiMin = 25, kPabiMax = 199;
constexpr std::size_t kCopiesMax = 8;
constexpr char kSoname[] = "libibverbs.so.1";
// Supported abi_version files of uverbs devices: our own tree has 1.
constexpr std::uint32_t kUverbsAbiMin = 1, kUverbsAbiMax = 1;

std::mutex copies_lock;
std::array<Libibverbs*, kCopiesMax> copies{};  // never freed: the libraries keep pointers into them

// Of ibv_get_cq_event() in each copy. Read without the lock: a place is complete once the count includes it.
struct Code {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};
std::array<Code, kCopiesMax> get_cq_event;
std::atomic<std::size_t> get_cq_event_count{0};

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

void complain(const std::string& sentence) { std::fprintf(stderr, "libbitmaprdma: %s\n", sentence.c_str()); }

void Libibverbs::register_with_caller(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) != 0 && info.dli_fname != nullptr) {
    if (void* library = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)) {
      register_with(library, info.dli_fname);
      ::dlclose(library);
    }
  }
  register_with_loaded();
}

void Libibverbs::register_with_loaded() {
  // By handle: a library that was loaded RTLD_LOCAL (Python, MPI) is not in the global scope.
  if (void* library = ::dlopen(kSoname, RTLD_LAZY | RTLD_NOLOAD)) {
    register_with(library, kSoname);
    ::dlclose(library);
  }
}

// The caller closes `library`; a registered copy gets a permanent reference of its own.
void Libibverbs::register_with(void* library, const char* file) {
  const std::lock_guard guard(copies_lock);
  for (Libibverbs*& copy : copies) {
    if (copy != nullptr) {
      if (copy->library_ == library) return;
      continue;
    }
    auto* fresh = new Libibverbs;
    if (!fresh->find_functions(library, file)) {
      delete fresh;
      return;
    }
    fresh->library_ = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    copy = fresh;
    fresh->fill_device_ops();
    fresh->find_get_cq_event(library);
    if (!fresh->refused_) fresh->register_driver_(fresh->device_ops_.data());
    return;
  }
}

bool Libibverbs::find_functions(void* library, const char* file) {
  for (int pabi = kPabiMin; pabi <= kPabiMax && register_driver_ == nullptr; ++pabi) {
    char name[48];
    std::snprintf(name, sizeof name, "verbs_register_driver_%d", pabi);
    if (find(library, name, register_driver_)) pabi_ = pabi;
  }
  if (register_driver_ == nullptr) return false;  // another library that called a hook
  const bool complete = find(library, "_verbs_init_and_alloc_context", core_.init_and_alloc_context) &&
                        find(library, "verbs_set_ops", core_.set_ops) &&
                        find(library, "verbs_uninit_context", core_.uninit_context) &&
                        find(library, "ibv_qp_to_qp_ex", core_.qp_to_qp_ex);
  // Releases 25 to 27 have another form of the registration; ibv_reg_mr_iova2 came with 28, ibv_import_device with 31.
  const bool too_old = ::dlsym(library, "ibv_reg_mr_iova2") == nullptr;
  short_device_ops_ = ::dlsym(library, "ibv_import_device") == nullptr;
  if (!complete || too_old) {
    refused_ = true;
    complain(std::string(file) + " is older than rdma-core 28 or lacks what plugins need: no device is shown");
  }
  return true;
}

// copies_lock held.
void Libibverbs::find_get_cq_event(void* library) {
  void* const function = ::dlsym(library, "ibv_get_cq_event");
  Dl_info info{};
  void* entry = nullptr;
  if (function == nullptr || ::dladdr1(function, &info, &entry, RTLD_DL_SYMENT) == 0 || entry == nullptr) return;
  const std::size_t place = get_cq_event_count.load(std::memory_order_relaxed);
  if (place == get_cq_event.size()) return;
  get_cq_event[place] = {reinterpret_cast<std::uintptr_t>(function), static_cast<const ElfW(Sym)*>(entry)->st_size};
  get_cq_event_count.store(place + 1, std::memory_order_release);
}

bool Libibverbs::is_get_cq_event(const void* address) {
  const std::size_t count = get_cq_event_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (reinterpret_cast<std::uintptr_t>(address) - get_cq_event[i].begin < get_cq_event[i].bytes) return true;
  }
  return false;
}

void Libibverbs::fill_device_ops() {
  using namespace abi;
  const auto set = [this](std::size_t slot, auto* function) {
    device_ops_[slot] = reinterpret_cast<std::uintptr_t>(function);
  };
  device_ops_[kSlotName] = reinterpret_cast<std::uintptr_t>("bitmaprdma");
  device_ops_[kSlotAbiRange] = std::uintptr_t{kUverbsAbiMax} << 32 | kUverbsAbiMin;
  set(kSlotMatchDevice, &plugin::match_device);
  set(kSlotAllocContext, &plugin::alloc_context);
  set(short_device_ops_ ? kSlotAllocDeviceV28 : kSlotAllocDevice, &plugin::alloc_device);
  set(short_device_ops_ ? kSlotUninitDeviceV28 : kSlotUninitDevice, &plugin::uninit_device);
}

Libibverbs& Libibverbs::of(const ibv_device* device) {
  const std::uintptr_t* ops = nullptr;
  std::memcpy(&ops, reinterpret_cast<const std::byte*>(device) + abi::kDeviceOpsPointer, sizeof ops);
  const std::lock_guard guard(copies_lock);
  const auto owner = std::find_if(copies.begin(), copies.end(), [ops](const Libibverbs* copy) {
    return copy != nullptr && copy->device_ops_.data() == ops;
  });
  BRDMA_CHECK(owner != copies.end());  // the library called us through one of these tables
  return **owner;
}

const abi::Layout* Libibverbs::layout(ibv_device* device) {
  const std::lock_guard guard(copies_lock);
  if (!layout_ && !refused_) {
    auto probed = abi::probe_layout(core_, device, pabi_);
    if (probed) {
      layout_ = probed.value();
    } else {
      refused_ = true;
      complain(probed.reason());
    }
  }
  return layout_ ? &*layout_ : nullptr;
}

}  // namespace brdma::provider
