// controller-session/key_file.h - pre-shared keys by name, a line each: NAME, then 64 hexadecimal digits. The
// controller's file has all keys, a member's only its own (in a lab all may share the controller's). '#' begins a
// comment. The name "*" is a key for any holder: with it a member may use any name; suited to a lab.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace brdma::session {

using Key = std::array<unsigned char, 32>;
using Keys = std::map<std::string, Key, std::less<>>;
inline constexpr std::string_view kAnybody = "*";

// Throws std::runtime_error with a sentence: missing, readable by others than its owner, or malformed.
[[nodiscard]] Keys read_keys(const std::string& path);
// A member's own key, from a file that may have others' too: the one with its name, else "*". An empty name: the only
// key. Throws std::runtime_error.
[[nodiscard]] Keys key_of(const Keys& keys, const std::string& name);
[[nodiscard]] Key make_key();  // random
[[nodiscard]] std::string key_line(std::string_view name, const Key& key);
// Writes a new file that only its owner may read. Throws std::runtime_error; an existing file is not touched.
void write_new_keys(const std::string& path, const Keys& keys);

}  // namespace brdma::session
