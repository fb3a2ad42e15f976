#include "io/system/secret_seed.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "io/daemon/refusal.h"

namespace brdma::io {

Result<Seed, ContextError> secret_seed() {
  std::array<std::uint64_t, 2> words;
  if (::getentropy(words.data(), sizeof words) == 0) return Seed{words[0], words[1]};
  const int error = errno;
  return ContextError{error, refusal("the kernel gives no random numbers", error)};
}

}  // namespace brdma::io
