// io/daemon/refusal.h - what the system refused, as a sentence that says what to do about it.
#pragma once

#include <string>
#include <string_view>

namespace brdma::io {

// "<what>: <errno's words>: <what to do>". For the calls that make descriptors, sockets, memory, processes.
[[nodiscard]] std::string refusal(std::string_view what, int error);

}  // namespace brdma::io
