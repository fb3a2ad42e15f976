#include "base/toml_text.h"

#include <algorithm>
#include <utility>

namespace brdma {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kNotAscii = "a character outside ASCII that is in neither a string nor a comment";
constexpr std::string_view kNoName = "a table without a name";

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '"' || c == '\'' || !is_ascii(c);
}

// Walks over a text; strings end as in TOML, or at the text's end.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  // Returns the fault of the first stray character, at where(); empty: none.
  std::string_view find() {
    while (!done() && stray_.empty()) step();
    return stray_;
  }
  [[nodiscard]] std::size_t where() const { return at_; }

 private:
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] bool here(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void step() {
    const bool begins_line = std::exchange(line_begins_, false);
    if (!is_ascii(text_[at_])) {
      stray_ = kNotAscii;
    } else if (begins_line && depth_ == 0 && here("[")) {
      pass_header();
    } else if (text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (here("\"\"\"") || here("'''")) {
      pass_string(text_.substr(at_, 3));
    } else if (here("\"") || here("'")) {
      pass_string(text_.substr(at_, 1));
    } else {
      pass_plain(begins_line);
    }
  }

  // A bracket at the start of a line may be part of a value, but only inside other brackets.
  void pass_plain(bool began) {
    const char c = text_[at_++];
    if (c == '[' || c == '{') ++depth_;
    if ((c == ']' || c == '}') && depth_ > 0) --depth_;
    line_begins_ = c == '\n' || (began && kBlanks.find(c) != std::string_view::npos);
  }

  void pass_header() {
    at_ += here("[[") ? 2 : 1;
    at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
    if (!done() && !begins_name(text_[at_])) stray_ = kNoName;
  }

  void pass_string(std::string_view quotes) {
    const bool one_line = quotes.size() == 1, escapes = quotes[0] == '"';
    for (at_ += quotes.size(); !done() && stray_.empty();) {
      if (here(quotes)) {
        at_ += quotes.size();
        for (int more = 0; !one_line && more < 2 && here(quotes.substr(0, 1)); ++more) ++at_;  // it ends with quotes
        return;
      }
      if (one_line && text_[at_] == '\n') return;  // for the parser to refuse
      if (escapes && text_[at_] == '\\') {
        pass_escape();
      } else {
        ++at_;
      }
    }
  }

  // The backslash, and the escaped character, or blanks and the characters after them.
  void pass_escape() {
    const std::size_t next = std::min(text_.find_first_not_of(" \t\r\n", at_ + 1), text_.size());
    const bool escapes_this = next == at_ + 1;
    at_ = next;
    if (done()) return;
    if (!is_ascii(text_[at_])) {
      stray_ = kNotAscii;
    } else if (escapes_this) {
      ++at_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;    // of brackets
  bool line_begins_ = true;  // but for blanks
  std::string_view stray_;
};

}  // namespace

std::optional<StrayCharacter> stray_character(std::string_view toml) {
  Walk walk{toml};
  const std::string_view what = walk.find();
  if (what.empty()) return std::nullopt;
  const auto before = std::count(toml.begin(), toml.begin() + static_cast<std::ptrdiff_t>(walk.where()), '\n');
  return StrayCharacter{.line = 1 + static_cast<std::size_t>(before), .what = what};
}

}  // namespace brdma
