// enable/preload_list.h - the text of /etc/ld.so.preload, which belongs to everybody: names of libraries, divided by
// blanks, colons and newlines; "#" begins a comment (ld.so(8)). Pure. The command adds one line of its own:
//   /path/libbitmaprdma.so # by 'brdma enable'
// What it adds it finds again by that comment, and removes it to the byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace brdma::enable {

// The list with the library in our line; `text`: nothing where there is no file. Our earlier line is replaced.
[[nodiscard]] std::string with_library(const std::optional<std::string>& text, const std::string& library);
// The list without our line, as it was before; nothing: the file was made by us, and nothing else is in it.
[[nodiscard]] std::optional<std::string> without_library(const std::string& text);
// Whether our line is in it.
[[nodiscard]] bool has_own_line(std::string_view text);

struct Listed {
  std::string library;
  bool own;  // in our line
};
// All names in it.
[[nodiscard]] std::vector<Listed> libraries_in(std::string_view text);

}  // namespace brdma::enable
