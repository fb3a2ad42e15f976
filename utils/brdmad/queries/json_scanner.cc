#include "queries/json_scanner.h"

namespace brdma::daemon {
namespace {

bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }

int hex_value(char byte) {
  if (is_digit(byte)) return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

}  // namespace

JsonScanner::Result JsonScanner::take(char byte) {
  if (byte < ' ' || byte > '~') return Result::kBad;
  switch (expect_) {
    case Expect::kText:
    case Expect::kEscape:
      return text(byte);
    case Expect::kHex:
      return hex(byte);
    case Expect::kNumber:
      return number(byte);
    case Expect::kWord:
      return word(byte);
    default:
      return byte == ' ' ? Result::kMore : structure(byte);
  }
}

JsonScanner::Result JsonScanner::structure(char byte) {
  switch (expect_) {
    case Expect::kBegin:
      return byte == '{' ? open(true) : Result::kBad;
    case Expect::kFirstKey:
      return byte == '}' ? close(true) : begin_key(byte);
    case Expect::kKey:
      return begin_key(byte);
    case Expect::kColon:
      return byte == ':' ? expect(Expect::kValue) : Result::kBad;
    case Expect::kFirstValue:
      return byte == ']' ? close(false) : begin_value(byte);
    case Expect::kValue:
      return begin_value(byte);
    default:
      return after_value(byte);
  }
}

JsonScanner::Result JsonScanner::begin_key(char byte) {
  key_ = true;
  return byte == '"' ? expect(Expect::kText) : Result::kBad;
}

JsonScanner::Result JsonScanner::after_value(char byte) {
  if (byte == ',') return expect(in_object() ? Expect::kKey : Expect::kValue);
  return byte == '}' || byte == ']' ? close(byte == '}') : Result::kBad;
}

JsonScanner::Result JsonScanner::begin_value(char byte) {
  length_ = 1;
  word_ = byte == 't' ? "true" : byte == 'f' ? "false" : byte == 'n' ? "null" : std::string_view{};
  if (!word_.empty()) return expect(Expect::kWord);
  if (byte == '{' || byte == '[') return open(byte == '{');
  if (byte == '"') {
    key_ = false;
    return expect(Expect::kText);
  }
  if (byte != '-' && !is_digit(byte)) return Result::kBad;
  number_ = byte == '-' ? Number::kMinus : byte == '0' ? Number::kZero : Number::kWhole;
  return expect(Expect::kNumber);
}

JsonScanner::Result JsonScanner::open(bool object) {
  if (depth_ == kDepthMax) return Result::kBad;
  ++depth_;
  objects_ = (objects_ & ~(1u << depth_)) | (object ? 1u : 0u) << depth_;
  return expect(object ? Expect::kFirstKey : Expect::kFirstValue);
}

JsonScanner::Result JsonScanner::close(bool object) {
  if (depth_ == 0 || in_object() != object) return Result::kBad;
  --depth_;
  expect_ = Expect::kAfterValue;
  return depth_ == 0 ? Result::kComplete : Result::kMore;
}

JsonScanner::Result JsonScanner::text(char byte) {
  if (expect_ == Expect::kEscape) {
    digits_ = code_ = 0;
    if (byte == 'u') return expect(Expect::kHex);
    const bool known = std::string_view("\"\\/bfnrt").find(byte) != std::string_view::npos;
    return known && !high_half_ ? expect(Expect::kText) : Result::kBad;
  }
  if (byte == '\\') return expect(Expect::kEscape);
  if (high_half_) return Result::kBad;
  if (byte == '"') return expect(key_ ? Expect::kColon : Expect::kAfterValue);
  return Result::kMore;
}

JsonScanner::Result JsonScanner::hex(char byte) {
  const int value = hex_value(byte);
  if (value < 0) return Result::kBad;
  code_ = code_ << 4 | static_cast<unsigned>(value);
  if (++digits_ < 4) return Result::kMore;
  const bool low = code_ >= 0xDC00 && code_ <= 0xDFFF;
  if (low != high_half_) return Result::kBad;
  high_half_ = code_ >= 0xD800 && code_ <= 0xDBFF;
  return expect(Expect::kText);
}

JsonScanner::Result JsonScanner::number(char byte) {
  if (++length_ > kNumberMax) return Result::kBad;
  const bool digit = is_digit(byte);
  switch (number_) {
    case Number::kMinus:
      return digit ? enter(byte == '0' ? Number::kZero : Number::kWhole) : Result::kBad;
    case Number::kPoint:
      return digit ? enter(Number::kFraction) : Result::kBad;
    case Number::kE:
      if (byte == '+' || byte == '-') return enter(Number::kSign);
      [[fallthrough]];
    case Number::kSign:
      digits_ = 1;
      return digit ? enter(Number::kExponent) : Result::kBad;
    default:
      return number_or_end(byte);
  }
}

// The number is well-formed so far: one more digit, its next part, or what comes behind it.
JsonScanner::Result JsonScanner::number_or_end(char byte) {
  const bool whole = number_ == Number::kZero || number_ == Number::kWhole;
  if (is_digit(byte)) {
    const bool too_long = number_ == Number::kExponent && ++digits_ > 2;
    return number_ == Number::kZero || too_long ? Result::kBad : Result::kMore;
  }
  if (byte == '.' && whole) return enter(Number::kPoint);
  if ((byte == 'e' || byte == 'E') && number_ != Number::kExponent) return enter(Number::kE);
  expect_ = Expect::kAfterValue;
  return byte == ' ' ? Result::kMore : structure(byte);
}

JsonScanner::Result JsonScanner::word(char byte) {
  if (byte != word_[length_]) return Result::kBad;
  return ++length_ == word_.size() ? expect(Expect::kAfterValue) : Result::kMore;
}

}  // namespace brdma::daemon
