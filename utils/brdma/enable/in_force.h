// enable/in_force.h - `brdma enable show`: what makes programs see the devices now, and from where.
#pragma once

#include <string>
#include <vector>

#include "enable/tree.h"
#include "output.h"

namespace brdma::enable {

// One object a place that names the library, keys:
//   scope     "this process" (the library is in this very program), "environment" (its LD_PRELOAD), or of places.h
//   unit      of services; else null
//   from      the file, as a user of the running system finds it; "LD_PRELOAD" or "/proc/self/maps" for the first two
//   library   its path inside the tree
//   state     "in force", "library missing" (programs start without it, with an error of the loader), "unreadable"
//   by        "brdma enable" or "others"
[[nodiscard]] std::vector<Json> in_force(const Tree& tree);

}  // namespace brdma::enable
