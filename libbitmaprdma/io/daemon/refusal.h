// io/daemon/refusal.h - a refusal of the system, as a sentence with its remedy.
#pragma once

#include <string>
#include <string_view>

namespace brdma::io {

// "<what>: <errno's text>: <remedy>". For calls that make descriptors, sockets, memory, processes.
[[nodiscard]] std::string refusal(std::string_view what, int error);

}  // namespace brdma::io
