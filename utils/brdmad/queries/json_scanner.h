// brdmad/queries/json_scanner.h - checks JSON text byte by byte: is it one well-formed object, of bounded depth, in
// printable ASCII, with numbers that fit a double? Then any reader accepts it. Keeps no text and allocates nothing.
// Stricter than RFC 8259: no character outside 0x20..0x7E, no number of more than kNumberMax characters, no exponent of
// more than two digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace brdma::daemon {

class JsonScanner {
 public:
  static constexpr unsigned kDepthMax = 16;
  static constexpr std::size_t kNumberMax = 32;

  enum class Result : std::uint8_t { kMore, kComplete, kBad };
  // The next byte. kComplete: with it the object ends. After kComplete and kBad: only reset().
  Result take(char byte);
  void reset() { *this = {}; }

  // Depth of the member that begins or ends here, read just before `take`: 1 for members of the outermost object, more
  // inside.
  [[nodiscard]] unsigned depth() const { return depth_; }
  // Inside a text: a comma or closing bracket that comes next is part of the text, not of the structure.
  [[nodiscard]] bool in_text() const { return expect_ >= Expect::kText && expect_ <= Expect::kHex; }

 private:
  enum class Expect : std::uint8_t {
    kBegin,
    kFirstKey,
    kKey,
    kColon,
    kFirstValue,
    kValue,
    kAfterValue,
    kText,
    kEscape,
    kHex,
    kNumber,
    kWord,
  };
  // By the byte that was taken last.
  enum class Number : std::uint8_t { kMinus, kZero, kWhole, kPoint, kFraction, kE, kSign, kExponent };

  Result structure(char byte);
  Result begin_key(char byte);
  Result begin_value(char byte);
  Result after_value(char byte);
  Result open(bool object);
  Result close(bool object);
  Result text(char byte);
  Result hex(char byte);
  Result number(char byte);
  Result number_or_end(char byte);
  Result word(char byte);
  Result expect(Expect next) {
    expect_ = next;
    return Result::kMore;
  }
  Result enter(Number part) {
    number_ = part;
    return Result::kMore;
  }
  [[nodiscard]] bool in_object() const { return (objects_ >> depth_ & 1) != 0; }

  Expect expect_ = Expect::kBegin;
  Number number_{};
  bool key_ = false;        // the text is a member's name
  bool high_half_ = false;  // first half of a surrogate pair: the other must follow
  unsigned depth_ = 0;
  std::uint32_t objects_ = 0;  // bit n: an object is at depth n; else a list
  unsigned code_ = 0, digits_ = 0;
  std::size_t length_ = 0;
  std::string_view word_;
};

}  // namespace brdma::daemon
