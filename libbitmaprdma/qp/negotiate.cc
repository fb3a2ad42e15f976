// Bitmap mode is agreed in band: a CAPS packet on reaching RTR, answered by another. Having received one of either kind
// proves that the peer can receive bitmap packets; until then standard packets are spoken, so nothing waits for it.
// A peer that knows nothing of it drops CAPS silently (its opcode lies in the manufacturer-specific space).
#include <algorithm>
#include <array>

#include "qp/queue_pair.h"

namespace brdma {
namespace {

constexpr Duration kAskInterval = 500_us;  // doubled each time
constexpr unsigned kAskMax = 8;            // the last at 64 ms: later the peer asks itself
constexpr std::uint8_t kVersion = 1;
constexpr std::uint32_t kPeerWindowMax = 1u << 20;

}  // namespace

void QueuePair::begin_negotiation() {
  negotiation_ = Negotiation{};
  negotiation_.ask_due = negotiates(identity_.recovery->mode);
  if (negotiation_.ask_due) begin_local();
}

// Something is left to agree on beside bitmap mode, and the peer answers.
void QueuePair::ask_again() { negotiation_.ask_due = negotiation_.asked < kAskMax; }

// The peer sends bitmap packets, so it has our CAPS; where none of its own arrived, asking begins anew.
void QueuePair::note_bitmap_peer() {
  if (identity_.bitmap_agreed || negotiation_.ask_due || negotiation_.ask_again) return;
  negotiation_.ask_due = true;
  negotiation_.asked = 0;
}

void QueuePair::handle_caps(const wire::Caps& caps, Instant now) {
  environment_.count(Counter::kCapsReceived);
  negotiation_.answer_due = negotiation_.answer_due || !caps.reply;
  // Answered, or asked by the peer, who repeats that until our answer arrives: either way nothing is left to ask.
  negotiation_.ask_due = false;
  negotiation_.ask_again.reset();
  const bool fits = (caps.capabilities & wire::kCapabilityBitmap) != 0 && caps.version_min <= kVersion &&
                    caps.version_max >= kVersion &&
                    caps.path_mtu_code == static_cast<std::uint8_t>(identity_.attributes.path_mtu);
  if (!fits) return;
  if (identity_.bitmap_agreed) {  // who asks again did not hear the answer
    if (!caps.reply && (caps.capabilities & wire::kCapabilityLocal) == 0) responder_.change_path();
    hear_local(caps);
    return;
  }
  hear_local(caps);
  identity_.bitmap_agreed = true;
  identity_.peer_reads_piggybacks = (caps.capabilities & wire::kCapabilityPiggyback) != 0;
  identity_.peer_reads_operations = (caps.capabilities & wire::kCapabilityOperations) != 0;
  identity_.peer_knows_copies = (caps.capabilities & wire::kCapabilityReadCopies) != 0;
  identity_.peer_knows_link_state = (caps.capabilities & wire::kCapabilityLinkState) != 0;
  identity_.peer_reads_waited = (caps.capabilities & wire::kCapabilityWaited) != 0;
  identity_.peer_reads_ranges = (caps.capabilities & wire::kCapabilityRanges) != 0;
  identity_.peer_window = std::clamp(caps.window_packets, 1u, kPeerWindowMax);
  identity_.peer_credit = qp::PeerCredit{caps.credit_packets, caps.credit_bytes};
  identity_.sending_paths = std::min<std::uint32_t>(own_paths(), caps.paths);
  identity_.receiving_paths =
      std::min<std::uint32_t>(identity_.recovery->path_bitmaps, std::max<std::uint32_t>(caps.sending_paths, 1));
  environment_.count(Counter::kBitmapQps);
  environment_.note(now, identity_.qpn, trace::EventType::kBitmapAgreed, identity_.peer_window);
  environment_.trace(now, identity_.qpn, trace::BitmapModeAgreed{identity_.peer_window});
  requester_.bitmap_agreed(now);
}

std::uint32_t QueuePair::own_paths() const {
  return std::min(static_cast<std::uint32_t>(environment_.config.source_ports.size()), kPathsMax);
}

// As long as nothing is agreed, the path of the question that is open: each goes by another, for one may be silent from
// the beginning. A peer that never answers is a standard one, and knows one path.
std::uint8_t QueuePair::negotiation_path() const {
  const Negotiation& negotiation = negotiation_;
  if (identity_.bitmap_agreed || (!negotiation.ask_due && !negotiation.ask_again)) return 0;
  const unsigned questions = negotiation.asked - (negotiation.ask_due || negotiation.asked == 0 ? 0 : 1);
  return static_cast<std::uint8_t>(questions % own_paths());
}

bool QueuePair::poll_caps(qp::TransmitBatch& batch, Instant now) {
  if (!negotiation_.ask_due && !negotiation_.answer_due) return false;
  const std::size_t local = local_ ? wire::kCapsLocalSize : 0;
  const std::size_t packet_bytes = wire::kBthSize + wire::kCapsSize + local + wire::kIcrcSize;
  if (!batch.fits(packet_bytes, 0, true)) return false;
  const qp::PeerCredit credit = responder_.own_credit();
  wire::Caps caps;
  caps.reply = negotiation_.answer_due;
  caps.source_qpn = identity_.qpn;
  caps.capabilities = wire::kCapabilityBitmap | wire::kCapabilityPiggyback | wire::kCapabilityOperations |
                      wire::kCapabilityRanges | wire::kCapabilityReadCopies | wire::kCapabilityLinkState |
                      wire::kCapabilityWaited;
  caps.version_min = caps.version_max = kVersion;
  caps.path_mtu_code = static_cast<std::uint8_t>(identity_.attributes.path_mtu);
  caps.paths = static_cast<std::uint8_t>(std::clamp(identity_.recovery->path_bitmaps, 1u, kPathsMax));
  caps.sending_paths = static_cast<std::uint8_t>(own_paths());
  caps.window_packets = qp::stated_window(*identity_.recovery);
  caps.credit_packets = credit.packets;
  caps.credit_bytes = credit.bytes;
  tell_local(caps);
  std::array<std::byte, wire::kCapsSize + wire::kCapsLocalSize> body;
  const std::size_t size = wire::emit_caps(caps, body.data());

  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kCaps);
  bth.dest_qpn = identity_.attributes.destination_qpn;
  batch.add_control(bth, ConstBytes{body.data(), size});
  environment_.count(Counter::kCapsSent);
  if (caps.reply) {
    negotiation_.answer_due = false;
    return true;
  }
  negotiation_.ask_due = false;
  if (++negotiation_.asked < kAskMax) {
    negotiation_.ask_again = now + kAskInterval * (std::int64_t{1} << (negotiation_.asked - 1));
  }
  return true;
}

}  // namespace brdma
