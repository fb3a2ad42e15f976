#include "values/frame.h"

#include <optional>
#include <utility>

#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr std::size_t kLengthBytes = 4;

}  // namespace

std::string frame_of(const Json& json) {
  const std::string body = json.dump();
  if (body.size() > kFrameMax) throw RunError("a message to the other side would be too long");
  std::string frame;
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(body.size() >> shift & 0xFF);
  return frame + body;
}

void FrameReader::push(std::string_view bytes) {
  if (waiting_.size() + bytes.size() > kWaitingMax) throw RunError("the other side sends more than is expected");
  waiting_ += bytes;
}

std::optional<Json> FrameReader::next() {
  if (waiting_.size() < kLengthBytes) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length = length << 8 | static_cast<unsigned char>(waiting_[i]);
  if (length > kFrameMax) throw RunError("the other side is no brdma perf of this version: a message is too long");
  if (waiting_.size() < kLengthBytes + length) return std::nullopt;
  Json json = Json::parse(waiting_.substr(kLengthBytes, length), nullptr, /*allow_exceptions=*/false);
  waiting_.erase(0, kLengthBytes + length);
  if (!json.is_object()) throw RunError("the other side is no brdma perf of this version: a message is no JSON object");
  return std::make_optional(std::move(json));
}

}  // namespace brdma::perf
