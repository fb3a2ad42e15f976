// memory/guard.h - access to application memory that may be gone: the program unmaps registered memory, removes write
// permission, or truncates a mapped file. Such an access returns false instead of ending the program. The kernel's
// drivers, which pin pages, have no such case, and devices that page on demand answer as we do.
//
// How: an access faults and the kernel delivers SIGSEGV or SIGBUS. The signal handler (io/system/fault_handler.h) calls
// recover(), which lets the faulting thread go on as if the access had returned. There is no cost before a fault: the
// copying functions are recognised by the addresses of their instructions (guarded.S); for other code the thread keeps
// a stack pointer while it runs (guarded()). Without a handler a fault acts as usual. x86-64 and aarch64; elsewhere all
// use sigsetjmp(), which costs more. Any thread; every function here may be called inside a handler of another signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/bytes.h"

#if defined(__SANITIZE_ADDRESS__)
#define BRDMA_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BRDMA_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(BRDMA_ADDRESS_SANITIZER)
extern "C" void __asan_loadN(const void* at, std::size_t bytes);
extern "C" void __asan_storeN(void* at, std::size_t bytes);
extern "C" void __asan_handle_no_return();
#endif

namespace brdma::memory {

// Guarded code of a thread that guarded.S does not recognise by its instructions.
struct Guard {
  void* stack = nullptr;  // null: nothing
  std::uintptr_t begin = 0, size = 0;
};

// Of bytes, added to a running one.
using SumFunction = std::uint32_t (*)(std::uint32_t running, const std::byte* data, std::size_t bytes);
struct Sum {
  std::uint64_t value;  // of 32 bits; the upper ones are undefined
  std::uint64_t there;  // 0: not all of the memory is mapped
};

extern "C" {
bool brdma_guarded_copy(void* to, const void* from, std::size_t bytes) noexcept;
bool brdma_guarded_place(void* to, const void* from, std::size_t bytes) noexcept;
bool brdma_guarded_store_8(void* to, std::uint64_t value) noexcept;
bool brdma_guarded_store_1(void* to, std::uint8_t value) noexcept;
bool brdma_guarded_add(void* word, std::uint64_t add, std::uint64_t* original) noexcept;
bool brdma_guarded_swap(void* word, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original) noexcept;
bool brdma_guarded_read(const void* at) noexcept;
bool brdma_guarded_write(void* at) noexcept;
bool brdma_guarded_call(void (*body)(void*), void* argument, Guard* guard) noexcept;
Sum brdma_guarded_sum(SumFunction function, std::uint32_t running, const std::byte* data, std::size_t bytes,
                      Guard* guard) noexcept;
}

extern thread_local constinit Guard own_guard [[gnu::tls_model("initial-exec")]];

// The sanitizer does not see guarded.S: accesses are reported to it here.
inline void note_load([[maybe_unused]] const void* at, [[maybe_unused]] std::size_t bytes) {
#if defined(BRDMA_ADDRESS_SANITIZER)
  __asan_loadN(at, bytes);
#endif
}
inline void note_store([[maybe_unused]] void* at, [[maybe_unused]] std::size_t bytes) {
#if defined(BRDMA_ADDRESS_SANITIZER)
  __asan_storeN(at, bytes);
#endif
}

// memcpy(). False: part of either is missing; how much has been copied is undefined.
[[nodiscard]] inline bool copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  note_load(from, bytes);
  note_store(to, bytes);
  return brdma_guarded_copy(to, from, bytes);
}
// The same, at least one byte, the end last: memory/copy.h.
[[nodiscard]] inline bool place(std::byte* to, const std::byte* from, std::size_t bytes) {
  note_load(from, bytes);
  note_store(to, bytes);
  return brdma_guarded_place(to, from, bytes);
}
// One store, visible after all earlier writes. An aligned address.
[[nodiscard]] inline bool store(std::byte* to, std::uint64_t value) {
  note_store(to, sizeof value);
  return brdma_guarded_store_8(to, value);
}
[[nodiscard]] inline bool store(std::byte* to, std::byte value) {
  note_store(to, sizeof value);
  return brdma_guarded_store_1(to, static_cast<std::uint8_t>(value));
}
// Real atomic operations, sequentially consistent. `original`: our memory.
[[nodiscard]] inline bool fetch_add(std::byte* word, std::uint64_t add, std::uint64_t& original) {
  note_store(word, sizeof add);
  return brdma_guarded_add(word, add, &original);
}
[[nodiscard]] inline bool compare_swap(std::byte* word, std::uint64_t compare, std::uint64_t swap,
                                       std::uint64_t& original) {
  note_store(word, sizeof swap);
  return brdma_guarded_swap(word, compare, swap, &original);
}

// Reads a byte of every page. The result holds for this moment only.
[[nodiscard]] bool can_read(const void* at, std::size_t bytes);
[[nodiscard]] bool can_write(void* at, std::size_t bytes);  // changes nothing

// Runs body(), which reads `memory` and may be left at any point: it holds no lock, allocates nothing, leaves no object
// that has a destructor. False: it was left.
template <class Body>
[[nodiscard]] bool guarded(ConstBytes memory, Body&& body) {
  own_guard.begin = reinterpret_cast<std::uintptr_t>(memory.data());
  own_guard.size = memory.size();
  const bool done = brdma_guarded_call([](void* given) { (*static_cast<std::remove_reference_t<Body>*>(given))(); },
                                       &body, &own_guard);
#if defined(BRDMA_ADDRESS_SANITIZER)
  if (!done) __asan_handle_no_return();  // the aborted body has not cleaned up its stack
#endif
  return done;
}

// The same for one function that reads all of the memory, at half the cost.
[[nodiscard]] inline Sum guarded_sum(SumFunction function, std::uint32_t running, ConstBytes memory) {
  const Sum sum = brdma_guarded_sum(function, running, memory.data(), memory.size(), &own_guard);
#if defined(BRDMA_ADDRESS_SANITIZER)
  if (sum.there == 0) __asan_handle_no_return();
#endif
  return sum;
}

// For the handler of SIGSEGV and SIGBUS: `address` and `context` as passed to it (siginfo_t::si_addr, ucontext_t).
// False: the fault is not from an access here, and nothing has been done. True: return from the handler. On a machine
// without guarded.S it does not return then: the handler's caller has to set the signal mask before.
[[nodiscard]] bool recover(const void* address, void* context);
[[nodiscard]] bool recovers_by_jump();

}  // namespace brdma::memory
