#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace brdma {
namespace {

void abort_with_message(const char* expression, const CheckPlace& where) {
  std::fprintf(stderr, "libbitmaprdma: internal error: %s does not hold (%s:%u, %s)\n", expression, where.file,
               where.line, where.function);
  std::abort();
}

std::atomic<CheckHandler> check_handler{&abort_with_message};

}  // namespace

void set_check_handler(CheckHandler handler) { check_handler.store(handler ? handler : &abort_with_message); }

void check_failed(const char* expression, const CheckPlace& where) {
  check_handler.load()(expression, where);
  std::abort();
}

}  // namespace brdma
