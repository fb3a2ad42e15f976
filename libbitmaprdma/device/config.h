// device/config.h - moved: stands in base, as what qp needs too.
#pragma once
#include "base/config.h"  // IWYU pragma: export
