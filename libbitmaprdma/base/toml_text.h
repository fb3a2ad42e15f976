// base/toml_text.h - a look at a TOML text before a parser sees it.
#pragma once

#include <cstddef>
#include <string_view>

namespace brdma {

// The line (from 1) of the first character outside ASCII that is in neither a string nor a comment, or stands where the
// blanks behind a string's backslash end; 0: there is none. TOML has no use for one there, but toml++ 3.3.0 does not
// say so: it runs into undefined behaviour where it asks whether one of 0xA0 to 0x499, a letter with an accent say, is
// blank.
[[nodiscard]] std::size_t stray_character_line(std::string_view toml);

}  // namespace brdma
