// Bitmap mode is agreed in band: a CAPS packet on reaching RTR, answered by another. Each states a token and returns
// the other side's. A sender that returns ours has read our packets: it is the peer, or a host on the path. Any other
// CAPS is answered and changes nothing. Until bitmap mode is agreed standard packets are sent, so nothing waits for it.
// A standard peer drops CAPS silently (its opcode lies in the manufacturer-specific space).
#include <algorithm>
#include <array>
#include <utility>

#include "qp/state/queue_pair.h"

namespace brdma {
namespace {

constexpr Duration kAskInterval = 500_us;  // doubled each time
constexpr unsigned kAskMax = 8;            // the last at 64 ms: later the peer asks itself
constexpr unsigned kAskMore = 4;           // when it does: within 56 ms
constexpr std::uint8_t kVersion = wire::kBitmapVersion;
constexpr Duration kChallengeInterval = 1_ms;
// How long standard packets are accepted once bitmap mode is agreed: those sent before the peer knew arrive within a
// round trip. The time is at most twice the agreement's, plus a time in which its host may have had no core. Later ones
// are refused, and the NAK that ends a queue pair is sent only once.
constexpr Duration kHostAbsent = 100_ms;
constexpr Duration kStandardGraceMax = 1_s;
constexpr std::uint32_t kPeerWindowMax = 1u << 20;

// Bitmap mode can be agreed on with its sender.
bool fits_ours(const wire::Caps& caps, PathMtu mtu) {
  return (caps.capabilities & wire::kCapabilityBitmap) != 0 && caps.version_min <= kVersion &&
         caps.version_max >= kVersion && caps.token != 0 && caps.path_mtu_code == static_cast<std::uint8_t>(mtu);
}

}  // namespace

void QueuePair::begin_negotiation() {
  negotiation_ = Negotiation{};
  negotiation_.ask_due = negotiates(identity_.recovery->mode);
  identity_.peer_token = 0;
  standard_run_ = 0;
  do {
    identity_.own_token = environment_.tokens.next();
  } while (identity_.own_token == 0);
  if (negotiation_.ask_due) begin_local();
}

// Something besides bitmap mode is left to agree on, and the peer answers.
void QueuePair::ask_again() { negotiation_.ask_due = negotiation_.asked < kAskMax; }

// The peer sends bitmap packets, so it has our CAPS; if none of its own arrived, asking restarts.
void QueuePair::note_bitmap_peer() {
  if (identity_.bitmap_agreed || negotiation_.ask_due || negotiation_.ask_again) return;
  negotiation_.ask_due = true;
  negotiation_.asked = 0;
}

void QueuePair::handle_caps(const wire::Caps& caps, Instant now) {
  environment_.count(Counter::kCapsReceived);
  const bool fits = fits_ours(caps, identity_.attributes.path_mtu);
  const bool proven = caps.echo == identity_.own_token;  // the peer has read our CAPS
  const bool known = identity_.bitmap_agreed && caps.token == identity_.peer_token;
  if (identity_.bitmap_agreed && !proven && !known) {
    if (!fits) return;
    negotiation_.note_token(caps.token);
    return challenge(now);  // a forger, or the peer after a restart
  }
  negotiation_.note_token(caps.token);
  negotiation_.response_due = negotiation_.response_due || !caps.reply;
  // Nothing is left to ask, except for the peer's claim: this CAPS may answer one sent before ours had a claim.
  const bool claimed = (caps.capabilities & wire::kCapabilityLocal) != 0;
  if (proven && (claimed || !local_ || identity_.local_state != LocalState::kNotReported)) negotiation_.asked_all();
  if (!fits) return;
  if (identity_.bitmap_agreed) {
    identity_.peer_token = caps.token;
    if (!caps.reply && !claimed && negotiation_.answer_is_lost(proven)) responder_.change_path();
    return on_local_caps(caps);
  }
  identity_.peer_token = caps.token;
  if (!proven) return ask_in_turn();
  on_local_caps(caps);
  agree(caps, now);
}

// The answer to an unproven CAPS asks in turn, unless our first CAPS is in flight: later ones follow lost ones. If all
// have been sent a few more are, for this answer may be lost as well.
void QueuePair::ask_in_turn() {
  if (!negotiates(identity_.recovery->mode)) return;
  if (negotiation_.ask_due || negotiation_.ask_again) {
    negotiation_.challenge = negotiation_.asked > 1;
    return;
  }
  negotiation_.ask_due = true;
  negotiation_.asked = kAskMax - kAskMore;
}

// Rate-limited: each is answered, whoever has caused it.
void QueuePair::challenge(Instant now) {
  if (now < negotiation_.challenged_at + kChallengeInterval) return;
  negotiation_.challenged_at = now;
  negotiation_.response_due = negotiation_.challenge = true;
}

// A standard packet came although bitmap mode is agreed: a forged one; or the peer does not know yet, and learns it by
// the answer to a challenge.
bool QueuePair::refuses_standard(Instant now) {
  if (now < identity_.standard_until) return false;
  negotiation_.note_token(identity_.peer_token);
  challenge(now);
  return true;
}

void QueuePair::agree(const wire::Caps& caps, Instant now) {
  identity_.bitmap_agreed = true;
  const Duration on_read_requested =
      negotiation_.answered + negotiation_.asked > 0 ? now - negotiation_.challenged_at : Duration{};
  identity_.standard_until = now + std::min(on_read_requested * 2, kStandardGraceMax) + kHostAbsent;
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

// Before the agreement: the path of the open request, else of the answer. Each takes another path, for one may be
// silent from the beginning. A peer that never answers is a standard one, and knows one path.
std::uint8_t QueuePair::negotiation_path() const {
  const Negotiation& negotiation = negotiation_;
  if (identity_.bitmap_agreed) return 0;
  if (!negotiation.ask_due && !negotiation.ask_again)
    return negotiation.response_due ? static_cast<std::uint8_t>(negotiation.answered % own_paths()) : std::uint8_t{0};
  const unsigned questions = negotiation.asked - (negotiation.ask_due || negotiation.asked == 0 ? 0 : 1);
  return static_cast<std::uint8_t>(questions % own_paths());
}

bool QueuePair::poll_caps(qp::TransmitBatch& batch, Instant now) {
  if (!negotiation_.ask_due && !negotiation_.response_due) return false;
  const std::size_t local = local_ ? wire::kCapsLocalSize : 0;
  const std::size_t packet_bytes = wire::kBthSize + wire::kCapsSize + local + wire::kIcrcSize;
  if (!batch.fits(packet_bytes, 0, true)) return false;
  const qp::PeerCredit credit = responder_.own_credit();
  wire::Caps caps;
  caps.reply = negotiation_.response_due && !negotiation_.ask_due && !negotiation_.challenge;
  caps.token = identity_.own_token;
  caps.echo = negotiation_.echo;
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
  fill_local_caps(caps);
  std::array<std::byte, wire::kCapsSize + wire::kCapsLocalSize> body;
  const std::size_t size = wire::emit_caps(caps, body.data());

  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kCaps);
  bth.dest_qpn = identity_.attributes.destination_qpn;
  batch.add_control(bth, ConstBytes{body.data(), size});
  environment_.count(Counter::kCapsSent);
  if (!std::exchange(negotiation_.stated, true)) negotiation_.challenged_at = now;
  if (negotiation_.response_due) ++negotiation_.answered;
  negotiation_.response_due = negotiation_.challenge = false;
  if (!negotiation_.ask_due) return true;
  negotiation_.ask_due = false;
  if (++negotiation_.asked < kAskMax) {
    negotiation_.ask_again = now + kAskInterval * (std::int64_t{1} << (negotiation_.asked - 1));
  }
  return true;
}

}  // namespace brdma
