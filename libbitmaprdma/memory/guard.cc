#include "memory/guard.h"

#include <ucontext.h>

#if !((defined(__x86_64__) || defined(__aarch64__)) && defined(__linux__)) || defined(BRDMA_GUARD_BY_JUMP)
#define BRDMA_GUARD_PORTABLE 1
#include <csetjmp>
#include <cstring>
#endif

namespace brdma::memory {

thread_local constinit Guard own_guard [[gnu::tls_model("initial-exec")]];

// The layout that guarded.S assumes.
static_assert(offsetof(Guard, stack) == 0 && offsetof(Guard, begin) == sizeof(void*));
static_assert(offsetof(Guard, size) == 2 * sizeof(void*));

namespace {

constexpr std::uintptr_t kSmallestPage = 4096;

template <class Look>
bool all_pages(std::uintptr_t at, std::size_t bytes, Look look) {
  if (bytes == 0) return true;
  for (const std::uintptr_t last = at + (bytes - 1);; at = (at | (kSmallestPage - 1)) + 1) {
    if (!look(at)) return false;
    if ((at | (kSmallestPage - 1)) >= last) return true;
  }
}

[[maybe_unused]] bool guards(const void* address) {
  return own_guard.stack != nullptr && reinterpret_cast<std::uintptr_t>(address) - own_guard.begin < own_guard.size;
}

}  // namespace

bool can_read(const void* at, std::size_t bytes) {
  return all_pages(reinterpret_cast<std::uintptr_t>(at), bytes,
                   [](std::uintptr_t page) { return brdma_guarded_read(reinterpret_cast<const void*>(page)); });
}

bool can_write(void* at, std::size_t bytes) {
  return all_pages(reinterpret_cast<std::uintptr_t>(at), bytes,
                   [](std::uintptr_t page) { return brdma_guarded_write(reinterpret_cast<void*>(page)); });
}

#if !defined(BRDMA_GUARD_PORTABLE)

extern "C" {
extern const char brdma_guarded_begin[] __attribute__((visibility("hidden")));
extern const char brdma_guarded_end[] __attribute__((visibility("hidden")));
extern const char brdma_guarded_failed[] __attribute__((visibility("hidden")));
extern const char brdma_guarded_call_failed[] __attribute__((visibility("hidden")));
extern const bool brdma_guarded_wide __attribute__((visibility("hidden")));
}

namespace {

bool machine_is_wide() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx") != 0;  // the processor has it and the system keeps its registers
#else
  return false;
#endif
}

}  // namespace

[[gnu::used]] const bool brdma_guarded_wide = machine_is_wide();  // read by guarded.S

bool recover(const void* address, void* context) {
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  auto& instruction = machine.gregs[REG_RIP];
  auto& stack = machine.gregs[REG_RSP];
  using Word = greg_t;
#else
  auto& instruction = machine.pc;
  auto& stack = machine.sp;
  using Word = unsigned long long;
#endif
  const auto at = static_cast<std::uintptr_t>(instruction);
  const auto of = [](const void* place) { return reinterpret_cast<std::uintptr_t>(place); };
  if (at >= of(brdma_guarded_begin) && at < of(brdma_guarded_end)) {
    instruction = static_cast<Word>(of(brdma_guarded_failed));
    return true;
  }
  if (!guards(address)) return false;
  stack = static_cast<Word>(of(own_guard.stack));
  instruction = static_cast<Word>(of(brdma_guarded_call_failed));
#if defined(__x86_64__)
  constexpr greg_t kDirection = 1 << 10;  // of string instructions: upwards, as every function may expect
  machine.gregs[REG_EFL] &= ~kDirection;
#endif
  return true;
}

bool recovers_by_jump() { return false; }

#else

extern "C" bool brdma_guarded_call(void (*body)(void*), void* argument, Guard* guard) noexcept {
  sigjmp_buf back;
  if (sigsetjmp(back, 0) != 0) {
    own_guard.stack = nullptr;
    return false;
  }
  guard->stack = &back;
  body(argument);
  guard->stack = nullptr;
  return true;
}

namespace {

template <class Body>
bool anywhere(Body body) {
  own_guard.begin = 0;
  own_guard.size = ~std::uintptr_t{0};
  return brdma_guarded_call([](void* given) { (*static_cast<Body*>(given))(); }, &body, &own_guard);
}

}  // namespace

extern "C" {
bool brdma_guarded_copy(void* to, const void* from, std::size_t bytes) noexcept {
  return anywhere([&] { std::memcpy(to, from, bytes); });
}
bool brdma_guarded_place(void* to, const void* from, std::size_t bytes) noexcept {
  auto* const at = static_cast<std::byte*>(to);
  const auto* const data = static_cast<const std::byte*>(from);
  std::uint64_t word = 0;
  if (bytes < sizeof word || reinterpret_cast<std::uintptr_t>(at + bytes) % sizeof word != 0)
    return brdma_guarded_copy(at, data, bytes - 1) &&
           brdma_guarded_store_1(at + bytes - 1, static_cast<std::uint8_t>(data[bytes - 1]));
  const std::size_t before = bytes - sizeof word;
  std::memcpy(&word, data + before, sizeof word);
  return brdma_guarded_copy(at, data, before) && brdma_guarded_store_8(at + before, word);
}
Sum brdma_guarded_sum(SumFunction function, std::uint32_t running, const std::byte* data, std::size_t bytes,
                      Guard*) noexcept {
  Sum sum{};
  sum.there = anywhere([&] { sum.value = function(running, data, bytes); }) ? 1 : 0;
  return sum;
}
bool brdma_guarded_store_8(void* to, std::uint64_t value) noexcept {
  return anywhere([&] { __atomic_store_n(static_cast<std::uint64_t*>(to), value, __ATOMIC_RELEASE); });
}
bool brdma_guarded_store_1(void* to, std::uint8_t value) noexcept {
  return anywhere([&] { __atomic_store_n(static_cast<std::uint8_t*>(to), value, __ATOMIC_RELEASE); });
}
bool brdma_guarded_add(void* word, std::uint64_t add, std::uint64_t* original) noexcept {
  return anywhere([&] { *original = __atomic_fetch_add(static_cast<std::uint64_t*>(word), add, __ATOMIC_SEQ_CST); });
}
bool brdma_guarded_swap(void* word, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original) noexcept {
  return anywhere([&] {
    __atomic_compare_exchange_n(static_cast<std::uint64_t*>(word), &compare, swap, false, __ATOMIC_SEQ_CST,
                                __ATOMIC_SEQ_CST);
    *original = compare;
  });
}
bool brdma_guarded_read(const void* at) noexcept {
  return anywhere([&] { (void)*static_cast<const volatile std::uint8_t*>(at); });
}
bool brdma_guarded_write(void* at) noexcept {
  // Stores its own value. (clang compiles a mere load of an atomic "or" to nothing.)
  return anywhere([&] {
    auto* const byte = static_cast<std::uint8_t*>(at);
    std::uint8_t value = __atomic_load_n(byte, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(byte, &value, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  });
}
}

bool recover(const void* address, void*) {
  if (!guards(address)) return false;
  siglongjmp(*static_cast<sigjmp_buf*>(own_guard.stack), 1);
}

bool recovers_by_jump() { return true; }

#endif

}  // namespace brdma::memory
