// tests/support/bytes.h - bytes written as hexadecimal text, so that a test shows the packet on the wire.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace brdma::test {

using Bytes = std::vector<std::byte>;

// "01 23 abcd": white space is ignored.
inline Bytes hex(std::string_view text) {
  Bytes bytes;
  int high = -1;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) continue;
    const auto digit = std::string_view{"0123456789abcdef"}.find(c);
    if (digit == std::string_view::npos) throw std::invalid_argument{"hex: not a digit"};
    if (high < 0) {
      high = static_cast<int>(digit);
    } else {
      bytes.push_back(static_cast<std::byte>(high * 16 + static_cast<int>(digit)));
      high = -1;
    }
  }
  if (high >= 0) throw std::invalid_argument{"hex: odd number of digits"};
  return bytes;
}

inline std::string to_hex(ConstBytes bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Bytes filled(std::size_t size, std::uint8_t value) { return Bytes(size, std::byte{value}); }

}  // namespace brdma::test
