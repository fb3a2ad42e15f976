// qp/read/response_admission.h - private: how much may be asked of the peer? READs, atomics and other requests cause
// responses, which come towards us: they are under our own credit (a share of the socket's buffer) and under a
// congestion window for the return path, as requests are under the peer's (qp/send/admission.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "congestion/delay_window.h"
#include "qp/state/identity.h"

namespace brdma::qp {

class ResponseAdmission {
 public:
  void reset();          // a queue pair starts again
  void forget_flight();  // no response is awaited any more

  // --- awaited ---
  [[nodiscard]] std::uint16_t messages() const { return messages_; }  // requests with responses
  [[nodiscard]] std::uint32_t packets() const { return packets_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // --- limits. `share`: our own credit, a share of the socket's buffer ---
  // A READ request for `bytes`; the first one always. Remembers that the limit held it back.
  [[nodiscard]] bool admits_read(std::uint32_t bytes, const Identity& id, PeerCredit share);
  // Responses to ask for in one READ request: several requests fill the limit, and none is larger than a part of the
  // window.
  [[nodiscard]] std::uint32_t request_packets(const Identity& id, PeerCredit share) const;

  // --- events ---
  void on_requested(std::uint32_t packets, std::uint32_t bytes) {  // a message has begun
    ++messages_;
    packets_ += packets;
    bytes_ += bytes;
  }
  // A response with `bytes` of its message; `read`: data of a READ.
  void on_response(std::uint32_t bytes, bool read) {
    --packets_;
    bytes_ -= bytes;
    if (read) arrived_ += std::min(bytes, ~arrived_);
  }
  void on_message_done() { --messages_; }
  // A request did not arrive: so many of the next READ requests leave twice (qp/read/request_copies.h).
  static constexpr std::uint8_t kCopiesAfterLoss = 128;
  void on_request_lost() { copies_ = kCopiesAfterLoss; }
  [[nodiscard]] std::uint8_t copies_left() const { return copies_; }
  void on_copied() { --copies_; }
  // The first response to a request that was sent once. Returns the bytes that arrived since the last sample.
  std::uint64_t on_round_trip(const congestion::RoundTrip& trip, Instant now);

  // The congestion window of the return path.
  [[nodiscard]] congestion::DelayWindow& congestion() { return congestion_; }
  [[nodiscard]] const congestion::DelayWindow& congestion() const { return congestion_; }

 private:
  [[nodiscard]] PeerCredit limit(const Identity& id, PeerCredit share) const;

  congestion::DelayWindow congestion_;
  std::uint16_t messages_ = 0;
  bool limited_ = false;  // since the last sample the limit held a READ back
  std::uint8_t copies_ = 0;
  std::uint32_t packets_ = 0;
  std::uint32_t bytes_ = 0;    // a READ request asks for kReadChunkBytesMax at most
  std::uint32_t arrived_ = 0;  // bytes since the last sample; saturates
};

}  // namespace brdma::qp
