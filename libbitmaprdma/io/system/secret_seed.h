// io/system/secret_seed.h - 128 random bits of the kernel, to seed what nobody may guess: keys, tokens, identifiers.
#pragma once

#include "base/result.h"
#include "base/seed.h"
#include "bitmaprdma/context.h"

namespace brdma::io {

// Nothing takes the place of a kernel or a sandbox without getrandom. Thread-safe.
[[nodiscard]] Result<Seed, ContextError> secret_seed();

}  // namespace brdma::io
