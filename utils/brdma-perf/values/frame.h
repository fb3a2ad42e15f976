// values/frame.h - messages of the TCP connection: a length (4 bytes, big endian), then so many bytes of JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "values/plan.h"

namespace brdma::perf {

constexpr std::size_t kFrameMax = 65'536;

[[nodiscard]] std::string frame_of(const Json& json);  // throws RunError above kFrameMax

// Takes a peer's bytes in any portions. What is not read yet is bounded: a peer that sends on is refused.
class FrameReader {
 public:
  static constexpr std::size_t kWaitingMax = 4 * kFrameMax;

  // Throws RunError: too many bytes wait.
  void push(std::string_view bytes);
  // The next whole message, an object. Throws RunError: the length is above kFrameMax, or it is no JSON object.
  [[nodiscard]] std::optional<Json> next();

 private:
  std::string waiting_;
};

}  // namespace brdma::perf
