// preload/real.h - the functions behind our hooks: the next definition in the loader's search order, usually libc's.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace brdma::preload {

// Found at the first call, or before by resolve(): dlsym must not run inside a signal handler.
// `version`: libc's newest, of a function with several. Before glibc 2.36 dlsym(RTLD_NEXT) finds the oldest: a realpath
// that fails without a buffer, a nftw that ignores flags.
template <class Function>
class Real {
 public:
  constexpr explicit Real(const char* name, const char* version = nullptr) : name_(name), version_(version) {}
  [[nodiscard]] Function* get() {
    void* known = function_.load(std::memory_order_relaxed);
    if (known == nullptr) [[unlikely]]
      known = resolve();
    return reinterpret_cast<Function*>(known);
  }
  void* resolve() {
    void* found = ::dlsym(RTLD_NEXT, name_);
    if (version_ != nullptr) {
      void* const newest = ::dlvsym(RTLD_NEXT, name_, version_);
      if (newest != nullptr && are_of_one_object(found, newest)) found = newest;
    }
    function_.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  // Another preload library's function has no version, and must not be skipped.
  static bool are_of_one_object(const void* one, const void* other) {
    Dl_info first{}, second{};
    return ::dladdr(one, &first) != 0 && ::dladdr(other, &second) != 0 && first.dli_fbase == second.dli_fbase;
  }

  const char* name_;
  const char* version_;
  std::atomic<void*> function_{nullptr};
};

}  // namespace brdma::preload

// A hooked function is exported under its own name; nothing else of this library is.
#define BRDMA_HOOK extern "C" __attribute__((visibility("default")))
// Declares the real function of a hook defined in this file.
#define BRDMA_REAL(function) \
  constinit ::brdma::preload::Real<decltype(::function)> real_##function { #function }
// The same, where libc has several versions: the newest.
#define BRDMA_REAL_VERSION(function, version) \
  constinit ::brdma::preload::Real<decltype(::function)> real_##function { #function, version }
#define BRDMA_CALLER __builtin_return_address(0)
