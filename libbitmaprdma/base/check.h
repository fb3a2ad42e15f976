// base/check.h - assertions about our own code, kept in every build. Do not check conditions that a peer or a caller
// can make false: a peer's bytes are a counted drop, a caller's mistake is a Status.
#pragma once

namespace brdma {

// std::source_location without its header, which clang 14 (the fuzz lane) cannot compile.
struct CheckPlace {
  const char* file;
  unsigned line;
  const char* function;
  static constexpr CheckPlace current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE(),
                                      const char* function = __builtin_FUNCTION()) {
    return CheckPlace{file, line, function};
  }
};

// Called with the failed check's place; must not return. The default writes one line to standard error and aborts.
using CheckHandler = void (*)(const char* expression, const CheckPlace& where);
void set_check_handler(CheckHandler handler);
[[noreturn]] void check_failed(const char* expression, const CheckPlace& where);

}  // namespace brdma

#define BRDMA_CHECK(expression)                                           \
  do {                                                                    \
    if (!(expression)) [[unlikely]]                                       \
      ::brdma::check_failed(#expression, ::brdma::CheckPlace::current()); \
  } while (false)

// For checks that cost: on in the sanitizer, fuzz and simulation lanes.
#ifdef BRDMA_SLOW_CHECKS
#define BRDMA_CHECK_SLOW(expression) BRDMA_CHECK(expression)
#else
#define BRDMA_CHECK_SLOW(expression) \
  do {                               \
  } while (false)
#endif
