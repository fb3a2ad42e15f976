#include "enable/preload_list.h"

#include <algorithm>

namespace brdma::enable {
namespace {

constexpr std::string_view kComment = " # by 'brdma enable'";
constexpr std::string_view kMadeFile = ", which made this file";
constexpr std::string_view kSeparators = " \t:\r\v\f";

struct Line {
  std::size_t begin, end;  // without its newline
};

std::optional<Line> own_line(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with(kComment) || line.ends_with(std::string{kComment} + std::string{kMadeFile})) {
      return Line{begin, end};
    }
    begin = end + 1;
  }
  return std::nullopt;
}

void append_names(std::string_view line, bool own, std::vector<Listed>& found) {
  line = line.substr(0, line.find('#'));
  while (!line.empty()) {
    const std::size_t end = std::min(line.find_first_of(kSeparators), line.size());
    if (end > 0) found.push_back({std::string{line.substr(0, end)}, own});
    line.remove_prefix(std::min(end + 1, line.size()));
  }
}

}  // namespace

bool has_own_line(std::string_view text) { return own_line(text).has_value(); }

std::string with_library(const std::optional<std::string>& text, const std::string& library) {
  const std::string line = library + std::string{kComment};
  if (!text) return line + std::string{kMadeFile} + "\n";
  if (const std::optional<Line> present = own_line(*text)) {
    std::string changed = *text;
    const std::string_view old = std::string_view{changed}.substr(present->begin, present->end - present->begin);
    const bool made_file = old.ends_with(kMadeFile);
    return changed.replace(present->begin, present->end - present->begin,
                           made_file ? line + std::string{kMadeFile} : line);
  }
  // Without a newline at its end the file gets none from us, which is how the removal knows.
  return text->empty() || text->back() == '\n' ? *text + line + "\n" : *text + "\n" + line;
}

std::optional<std::string> without_library(const std::string& text) {
  const std::optional<Line> line = own_line(text);
  if (!line) return text;
  const bool made_file = std::string_view{text}.substr(0, line->end).ends_with(kMadeFile);
  std::string rest = text;
  if (line->end < text.size()) {
    rest.erase(line->begin, line->end + 1 - line->begin);
  } else {
    rest.erase(line->begin == 0 ? 0 : line->begin - 1);
  }
  if (made_file && rest.empty()) return std::nullopt;
  return rest;
}

std::vector<Listed> libraries_in(std::string_view text) {
  const std::optional<Line> own = own_line(text);
  std::vector<Listed> found;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    append_names(text.substr(begin, end - begin), own && own->begin == begin, found);
    begin = end + 1;
  }
  return found;
}

}  // namespace brdma::enable
