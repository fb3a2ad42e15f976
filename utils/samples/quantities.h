// samples/quantities.h - sizes and times as users write them, and numbers as they read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace brdma::samples {

constexpr std::int64_t kSecond = 1'000'000'000;  // in ns

// "4096", "64K", "8M", "1G": bytes, in powers of 1024. Throws Misuse.
[[nodiscard]] std::uint64_t parse_bytes(std::string_view text);
// "100us", "5ms", "2s", "0.5s"; a bare number is seconds. In ns, above 0 and at most a day. Throws Misuse.
[[nodiscard]] std::int64_t parse_time(std::string_view text);
// With `digits` behind the point.
[[nodiscard]] std::string fixed(double value, int digits);

}  // namespace brdma::samples
