// base/toml_text.h - checks a TOML text before the parser: some malformed texts cause undefined behaviour or an
// assertion in toml++.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace brdma {

struct StrayCharacter {
  std::size_t line = 0;   // from 1
  std::string_view what;  // a sentence
};

// The first misplaced character of these kinds; none: the parser may read the text.
// - Outside ASCII, outside strings and comments, or at the end of the blanks behind a string's backslash. toml++ 3.3
// checks characters of 0xA0 to 0x499, letters with accents among them, for blanks.
// - After the bracket or brackets that begin a table, a character that begins no name. toml++ 3.4 reads it as one.
[[nodiscard]] std::optional<StrayCharacter> stray_character(std::string_view toml);

}  // namespace brdma
