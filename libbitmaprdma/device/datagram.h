// device/datagram.h - moved: stands in base, as what qp needs too.
#pragma once
#include "base/datagram.h"  // IWYU pragma: export
