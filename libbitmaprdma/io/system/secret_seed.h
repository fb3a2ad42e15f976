// io/system/secret_seed.h - 128 random bits of the kernel, the seed of secret values: keys, tokens, identifiers.
#pragma once

#include "base/result.h"
#include "base/seed.h"
#include "bitmaprdma/context.h"

namespace brdma::io {

// No fallback for a kernel or a sandbox without getrandom. Thread-safe.
[[nodiscard]] Result<Seed, ContextError> secret_seed();

}  // namespace brdma::io
