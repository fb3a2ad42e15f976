#include "models/model.h"

namespace brdma::models {

Frame notification_of(const Frame& data, std::uint32_t wire_bytes, Instant now) {
  Frame notice;
  notice.flow = data.flow;
  notice.kind = FrameKind::kDropped;
  notice.sequence = data.sequence;
  notice.length = data.length;
  notice.wire_bytes = wire_bytes;
  notice.sent_at = now;
  notice.echo = data.sent_at;
  return notice;
}

}  // namespace brdma::models
