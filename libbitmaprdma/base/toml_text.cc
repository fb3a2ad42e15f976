#include "base/toml_text.h"

#include <algorithm>

namespace brdma {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// Walks over a text; strings end where TOML has them end, or at the text's end.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  // Where the first stray character is; the text's size where there is none.
  std::size_t find() {
    while (!done() && !stray_) step();
    return stray_ ? at_ : text_.size();
  }

 private:
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] bool here(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void step() {
    if (!is_ascii(text_[at_])) {
      stray_ = true;
    } else if (text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (here("\"\"\"") || here("'''")) {
      pass_string(text_.substr(at_, 3));
    } else if (here("\"") || here("'")) {
      pass_string(text_.substr(at_, 1));
    } else {
      ++at_;
    }
  }

  void pass_string(std::string_view quotes) {
    const bool one_line = quotes.size() == 1, escapes = quotes[0] == '"';
    for (at_ += quotes.size(); !done() && !stray_;) {
      if (here(quotes)) {
        at_ += quotes.size();
        for (int more = 0; !one_line && more < 2 && here(quotes.substr(0, 1)); ++more) ++at_;  // it ends with quotes
        return;
      }
      if (one_line && text_[at_] == '\n') return;  // the parser's to refuse
      if (escapes && text_[at_] == '\\') {
        pass_escape();
      } else {
        ++at_;
      }
    }
  }

  // The backslash, and blanks with what follows them, or what it escapes.
  void pass_escape() {
    const std::size_t next = std::min(text_.find_first_not_of(" \t\r\n", at_ + 1), text_.size());
    const bool escapes_this = next == at_ + 1;
    at_ = next;
    if (done()) return;
    stray_ = !is_ascii(text_[at_]);
    if (!stray_ && escapes_this) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool stray_ = false;
};

}  // namespace

std::size_t stray_character_line(std::string_view toml) {
  const std::size_t at = Walk{toml}.find();
  if (at == toml.size()) return 0;
  return 1 + static_cast<std::size_t>(std::count(toml.begin(), toml.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

}  // namespace brdma
