// Bitmap mode is agreed in band: a CAPS packet on reaching RTR, answered by another. Each states a token and returns
// the other side's. A sender that returns ours has read our packets: it is the peer, or a host on the path. Any other
// CAPS is answered and changes nothing. Until bitmap mode is agreed standard packets are sent, so nothing waits for it.
// A standard peer drops CAPS silently (its opcode lies in the manufacturer-specific space).
#include "qp/negotiate/negotiator.h"

#include <algorithm>
#include <array>
#include <utility>

namespace brdma::qp {
namespace {

constexpr Duration kAskInterval = 500_us;  // doubled each time
constexpr unsigned kAskMore = 4;           // once the peer has asked: within 56 ms
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

std::uint8_t Negotiation::path(std::uint32_t paths) const {
  if (!asking()) return response_due ? static_cast<std::uint8_t>(answered % paths) : std::uint8_t{0};
  const unsigned questions = asked - (ask_due || asked == 0 ? 0 : 1);
  return static_cast<std::uint8_t>(questions % paths);
}

void Negotiator::begin() const {
  Negotiation& negotiation = me_.negotiation;
  negotiation = Negotiation{};
  negotiation.ask_due = negotiates(me_.id);
  me_.id.peer_token = 0;
  do {
    me_.id.own_token = me_.env.nonces.tokens.next();
  } while (me_.id.own_token == 0);
  if (negotiation.ask_due) local().begin();
}

void Negotiator::reset() const {
  me_.negotiation = Negotiation{};
  local().end();
}

void Negotiator::want_local() const {
  local().find_out();
  if (!me_.local) return;
  me_.negotiation.asked = 0;  // however long the agreement on bitmap mode took
  me_.negotiation.ask_more();
}

// Something besides bitmap mode may be left to agree on, and the peer answers.
void Negotiator::on_local_caps(const wire::Caps& caps, std::uint16_t source_port) const {
  const LocalNegotiator::Follows follows = local().on_caps(caps, source_port);
  if (follows == LocalNegotiator::Follows::kNothing) return;
  if (follows == LocalNegotiator::Follows::kNewCaps) me_.negotiation.asked = 0;
  me_.negotiation.ask_more();
}

void Negotiator::on_caps(const wire::Caps& caps, std::uint16_t source_port, Instant now) const {
  me_.env.count(Counter::kCapsReceived);
  const bool fits = fits_ours(caps, me_.id.attributes.path_mtu);
  const bool proven = caps.echo == me_.id.own_token;  // the peer has read our CAPS
  const bool known = me_.id.bitmap_agreed && caps.token == me_.id.peer_token;
  if (me_.id.bitmap_agreed && !proven && !known) {
    if (!fits) return;
    me_.negotiation.note_token(caps.token);
    return challenge(now);  // a forger, or the peer after a restart
  }
  me_.negotiation.note_token(caps.token);
  me_.negotiation.response_due = me_.negotiation.response_due || !caps.reply;
  // Nothing is left to ask, except for the peer's claim: this CAPS may answer one sent before ours had a claim.
  const bool claimed = (caps.capabilities & wire::kCapabilityLocal) != 0;
  if (proven && (claimed || !me_.local || me_.id.local_state != LocalState::kNotReported)) me_.negotiation.asked_all();
  if (!fits) return;
  if (me_.id.bitmap_agreed) {
    me_.id.peer_token = caps.token;
    if (!caps.reply && !claimed && me_.negotiation.answer_is_lost(proven)) me_.responder.change_path();
    return on_local_caps(caps, source_port);
  }
  me_.id.peer_token = caps.token;
  if (!proven) return ask_in_turn();
  on_local_caps(caps, source_port);
  agree(caps, now);
}

// The answer to an unproven CAPS asks in turn, unless our first CAPS is in flight: later ones follow lost ones. If all
// have been sent a few more are, for this answer may be lost as well.
void Negotiator::ask_in_turn() const {
  if (!negotiates(me_.id)) return;
  if (me_.negotiation.asking()) {
    me_.negotiation.challenge = me_.negotiation.asked > 1;
    return;
  }
  me_.negotiation.ask_due = true;
  me_.negotiation.asked = Negotiation::kAskMax - kAskMore;
}

// Rate-limited: each is answered, whoever has caused it.
void Negotiator::challenge(Instant now) const {
  if (now < me_.negotiation.challenged_at + kChallengeInterval) return;
  me_.negotiation.challenged_at = now;
  me_.negotiation.response_due = me_.negotiation.challenge = true;
}

// A standard packet came although bitmap mode is agreed: a forged one; or the peer does not know yet, and learns it by
// the answer to a challenge.
bool Negotiator::refuses_standard(Instant now) const {
  if (now < me_.id.standard_until) return false;
  me_.negotiation.note_token(me_.id.peer_token);
  challenge(now);
  return true;
}

void Negotiator::agree(const wire::Caps& caps, Instant now) const {
  me_.id.bitmap_agreed = true;
  const Duration on_read_requested =
      me_.negotiation.answered + me_.negotiation.asked > 0 ? now - me_.negotiation.challenged_at : Duration{};
  me_.id.standard_until = now + std::min(on_read_requested * 2, kStandardGraceMax) + kHostAbsent;
  me_.id.peer_reads_piggybacks = (caps.capabilities & wire::kCapabilityPiggyback) != 0;
  me_.id.peer_reads_operations = (caps.capabilities & wire::kCapabilityOperations) != 0;
  me_.id.peer_knows_copies = (caps.capabilities & wire::kCapabilityReadCopies) != 0;
  me_.id.peer_knows_link_state = (caps.capabilities & wire::kCapabilityLinkState) != 0;
  me_.id.peer_reads_waited = (caps.capabilities & wire::kCapabilityWaited) != 0;
  me_.id.peer_reads_ranges = (caps.capabilities & wire::kCapabilityRanges) != 0;
  me_.id.peer_window = std::clamp(caps.window_packets, 1u, kPeerWindowMax);
  me_.id.peer_credit = PeerCredit{caps.credit_packets, caps.credit_bytes};
  me_.id.sending_paths = std::min<std::uint32_t>(own_paths(me_.env), caps.paths);
  me_.id.receiving_paths =
      std::min<std::uint32_t>(me_.id.recovery->path_bitmaps, std::max<std::uint32_t>(caps.sending_paths, 1));
  me_.env.count(Counter::kBitmapQps);
  me_.env.note(now, me_.id.qpn, trace::EventType::kBitmapAgreed, me_.id.peer_window);
  me_.env.trace(now, me_.id.qpn, trace::BitmapModeAgreed{me_.id.peer_window});
  me_.requester.bitmap_agreed(now);
}

wire::Caps Negotiator::own_caps() const {
  const RecoveryConfig& recovery = *me_.id.recovery;
  const Negotiation& negotiation = me_.negotiation;
  const PeerCredit credit = me_.responder.own_credit();
  wire::Caps caps;
  caps.reply = negotiation.response_due && !negotiation.ask_due && !negotiation.challenge;
  caps.token = me_.id.own_token;
  caps.echo = negotiation.echo;
  caps.source_qpn = me_.id.qpn;
  caps.capabilities = wire::kCapabilityBitmap | wire::kCapabilityPiggyback | wire::kCapabilityOperations |
                      wire::kCapabilityRanges | wire::kCapabilityReadCopies | wire::kCapabilityLinkState |
                      wire::kCapabilityWaited;
  caps.version_min = caps.version_max = kVersion;
  caps.path_mtu_code = static_cast<std::uint8_t>(me_.id.attributes.path_mtu);
  caps.paths = static_cast<std::uint8_t>(std::clamp(recovery.path_bitmaps, 1u, kPathsMax));
  caps.sending_paths = static_cast<std::uint8_t>(own_paths(me_.env));
  caps.window_packets = stated_window(recovery);
  caps.credit_packets = credit.packets;
  caps.credit_bytes = credit.bytes;
  local().fill(caps);
  return caps;
}

bool Negotiator::poll(TransmitBatch& batch, Instant now) const {
  if (!me_.negotiation.due()) return false;
  const std::size_t local_bytes = me_.local ? wire::kCapsLocalSize : 0;
  const std::size_t packet_bytes = wire::kBthSize + wire::kCapsSize + local_bytes + wire::kIcrcSize;
  if (!batch.fits(packet_bytes, 0, true)) return false;
  std::array<std::byte, wire::kCapsSize + wire::kCapsLocalSize> body;
  const std::size_t size = wire::emit_caps(own_caps(), body.data());
  wire::Bth bth;
  bth.opcode = static_cast<std::uint8_t>(wire::Control::kCaps);
  bth.dest_qpn = me_.id.attributes.destination_qpn;
  batch.add_control(bth, ConstBytes{body.data(), size});
  me_.env.count(Counter::kCapsSent);
  note_sent(now);
  return true;
}

void Negotiator::note_sent(Instant now) const {
  Negotiation& negotiation = me_.negotiation;
  if (!std::exchange(negotiation.stated, true)) negotiation.challenged_at = now;
  if (negotiation.response_due) ++negotiation.answered;
  negotiation.response_due = negotiation.challenge = false;
  if (!negotiation.ask_due) return;
  negotiation.ask_due = false;
  if (++negotiation.asked < Negotiation::kAskMax)
    negotiation.ask_again = now + kAskInterval * (std::int64_t{1} << (negotiation.asked - 1));
}

}  // namespace brdma::qp
