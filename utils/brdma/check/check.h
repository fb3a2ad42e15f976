// check/check.h - `brdma check` for other commands: all facts of this machine.
#pragma once

#include "check/facts.h"

namespace brdma::check {

// Without peer and program. Opens each active device once, by the probe.
[[nodiscard]] Facts collect_all();

}  // namespace brdma::check
