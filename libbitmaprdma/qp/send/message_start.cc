#include "qp/send/message_start.h"

namespace brdma::qp {

std::uint32_t ReadChunks::next_bytes(bool by_reference) const {
  const std::uint32_t left = parts_.queue[parts_.queue.next()].length - parts_.next.cut;
  if (by_reference) [[unlikely]]
    return std::min(left, kFetchBytesMax);
  std::uint32_t packets = parts_.responses.request_packets(parts_.id, parts_.env.credit_share());
  if (parts_.pace != nullptr) [[unlikely]] {
    const ResponsePacing pacing{{parts_.env, parts_.id, parts_.rtt, parts_.responses.congestion(), *parts_.pace}};
    packets = std::min(packets, pacing.packets_of_request());
  }
  return std::min(left, packets * parts_.id.mtu());
}

}  // namespace brdma::qp
