// base/toml_text.h - a look at a TOML text before a parser sees it: toml++ runs into undefined behaviour, or an
// assertion of its own, at some texts that are no TOML.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace brdma {

struct StrayCharacter {
  std::size_t line = 0;   // from 1
  std::string_view what;  // in words
};

// The first character that has no place where it is, of these kinds; none: the parser may see the text.
// - Outside ASCII, in neither a string nor a comment, or where the blanks behind a string's backslash end. toml++ 3.3
// asks
//   of 0xA0 to 0x499, letters with accents among them, whether it is blank.
// - Behind the bracket or brackets that begin a table, what begins no name. toml++ 3.4 reads it as one.
[[nodiscard]] std::optional<StrayCharacter> stray_character(std::string_view toml);

}  // namespace brdma
