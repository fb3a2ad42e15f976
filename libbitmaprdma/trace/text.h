// trace/text.h - the one text form of an event, used by goldens, `brdma trace` and failing tests:
//   gap_promoted start=1003 length=1 cause=depth
// Without time and queue pair; line() puts "12.001us qp=7 " before it.
#pragma once

#include <string>

#include "trace/events.h"

namespace brdma::trace {

[[nodiscard]] std::string text(const Event& event);
[[nodiscard]] std::string line(Instant when, std::uint32_t qpn, const Event& event);

}  // namespace brdma::trace
