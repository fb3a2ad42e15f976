// preload/real.h - the functions behind our hooks: the next definition in the loader's search order, usually libc's.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace brdma::preload {

// Found at the first call, or before by resolve(): dlsym must not run inside a signal handler.
template <class Function>
class Real {
 public:
  constexpr explicit Real(const char* name) : name_(name) {}
  [[nodiscard]] Function* get() {
    void* known = function_.load(std::memory_order_relaxed);
    if (known == nullptr) [[unlikely]]
      known = resolve();
    return reinterpret_cast<Function*>(known);
  }
  void* resolve() {
    void* found = ::dlsym(RTLD_NEXT, name_);
    function_.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  const char* name_;
  std::atomic<void*> function_{nullptr};
};

}  // namespace brdma::preload

// A hooked function is exported under its own name; nothing else of this library is.
#define BRDMA_HOOK extern "C" __attribute__((visibility("default")))
// Declares the real function of a hook defined in this file.
#define BRDMA_REAL(function) \
  constinit ::brdma::preload::Real<decltype(::function)> real_##function { #function }
#define BRDMA_CALLER __builtin_return_address(0)
