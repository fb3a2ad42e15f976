// The messages of the hostile peer's connection manager, and its reactions.
#include <algorithm>
#include <cstring>

#include "hostile_peer.h"
#include "wire/cm/cm_address.h"
#include "wire/cm/cm_messages.h"

namespace brdma::attacks {
namespace {

template <std::size_t kSize>
void put(wire::PrivateData<kSize>& data, std::size_t at, std::span<const std::uint8_t> bytes) {
  std::memcpy(data.data() + at, bytes.data(), bytes.size());
}

template <std::size_t kSize>
std::optional<Offer> offer_in(const wire::PrivateData<kSize>& data, std::size_t at) {
  return parse_offer({reinterpret_cast<const std::uint8_t*>(data.data()) + at, kSize - at});
}

Offer own_offer(const std::byte* memory, std::size_t half, std::uint32_t source, std::uint32_t sink) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto size = static_cast<std::uint32_t>(half);
  return {RegionOffer{address + half, sink, size}, RegionOffer{address, source, size},
          RegionOffer{address, source, size}};
}

}  // namespace

HostilePeer::Link* HostilePeer::make_link(Instant now) {
  static constexpr std::uint32_t kChances[] = {250'000, 50'000, 5'000, 0};
  Link link;
  link.side = random_.below(4) == 0 ? 1 : 0;
  Side& side = sides_[link.side];
  QpCreate create;
  create.pd = side.pd;
  create.send_cq = create.receive_cq = side.cq;
  create.capabilities = {
      .send_wr_max = 64, .receive_wr_max = 64, .send_sge_max = 1, .receive_sge_max = 1, .inline_bytes_max = 0};
  auto made = side.engine->create_qp(create);
  if (!made) return nullptr;
  link.qp = made.value();
  link.own_qpn = side.engine->qp_num(link.qp);
  link.own_psn = Psn{static_cast<std::uint32_t>(random_.next() & 0xFF'FFFF)};
  link.chance = kChances[random_.below(std::size(kChances))];
  link.careful = random_.below(2) == 0;
  link.until = now + 1_ms * static_cast<std::int64_t>(20 + random_.below(600));
  return &links_.emplace_back(std::move(link));
}

void HostilePeer::connect(Instant now) {
  Link* const link = make_link(now);
  if (link == nullptr) return;
  Side& side = sides_[link->side];
  const bool same = random_.below(4) != 0;
  link->mtu = same ? PathMtu::k1024 : static_cast<PathMtu>(1 + random_.below(5));
  wire::CmReq req;
  req.service_id = wire::service_id(wire::PortSpace::kTcp, kVictimPort);
  req.ca_guid = 0x0200'00FF'FE00'0002;
  req.qpn = link->own_qpn;
  req.first_psn = link->own_psn;
  req.responder_resources = req.initiator_depth = 4;
  req.remote_response_timeout = req.local_response_timeout = 20;
  req.retry_count = req.rnr_retry_count = 7;
  req.path_mtu_code = static_cast<std::uint8_t>(link->mtu);
  req.cm_retries = 15;
  req.path.ack_timeout = 14;
  std::byte address[wire::kCmAddressSize];
  const auto port = static_cast<std::uint16_t>(1024 + random_.below(60000));
  wire::emit_cm_address({.source_port = port, .source = socket_.own(), .destination = socket_.victim()}, address);
  std::copy(std::begin(address), std::end(address), req.private_data.begin());
  const Offer offer =
      own_offer(memory_.data(), kHalf, side.engine->info(side.source).rkey, side.engine->info(side.sink).rkey);
  put(req.private_data, wire::kCmAddressSize, emit_offer(offer));
  const auto id = agent_.connect({.local = socket_.own(), .remote = socket_.victim()}, req, now);
  if (id) link->id = id.value();
}

// RESET -> INIT -> RTR -> RTS, with the victim's number and PSN.
void HostilePeer::bring_up(Link& link, Psn first, Instant now) {
  Engine& engine = *sides_[link.side].engine;
  QpAttributes a;
  a.path_mtu = link.mtu;
  a.access = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  a.destination_qpn = link.victim_qpn;
  a.receive_psn = link.own_psn;
  a.send_psn = first;
  a.local_address = socket_.own();
  a.peer_address = socket_.victim();
  a.timeout = 12;
  a.retry_count = 3;
  a.min_rnr_timer = 1;
  a.max_rd_atomic = a.max_dest_rd_atomic = 4;
  constexpr std::uint32_t kInit = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess;
  constexpr std::uint32_t kRtr = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                                 kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
  constexpr std::uint32_t kRts =
      kQpAttrState | kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic;
  a.state = QpState::kInit;
  bool done = engine.modify_qp(link.qp, a, kInit, now).ok();
  a.state = QpState::kRtr;
  done = done && engine.modify_qp(link.qp, a, kRtr, now).ok();
  a.state = QpState::kRts;
  link.up = done && engine.modify_qp(link.qp, a, kRts, now).ok();
  link.seen = link.own_psn;
  link.sent = first;
  const auto sink = reinterpret_cast<std::uintptr_t>(memory_.data()) + kHalf;
  const Sge sge{sink, 4096, engine.info(sides_[link.side].sink).lkey};
  for (std::uint64_t i = 0; link.up && i < 16; ++i) (void)engine.post_receive(link.qp, {i, {&sge, 1}}, now);
}

void HostilePeer::take_events(Instant now) {
  while (const auto event = agent_.poll_event()) {
    switch (event->kind) {
      case cm::Event::Kind::kRequest:
        on_request(*event, now);
        break;
      case cm::Event::Kind::kReply:
        on_reply(*event, now);
        break;
      case cm::Event::Kind::kReady:
        ++figures_.as_server;
        break;
      default:
        for (Link& link : links_) {
          if (link.id == event->id) link.until = now;
        }
    }
  }
}

void HostilePeer::on_reply(const cm::Event& event, Instant now) {
  const auto& rep = std::get<wire::CmRep>(event.message);
  const auto link = std::find_if(links_.begin(), links_.end(), [&](const Link& each) { return each.id == event.id; });
  if (link == links_.end()) return agent_.destroy(event.id, now);
  link->victim_qpn = rep.qpn;
  if (const auto offer = offer_in(rep.private_data, 0)) link->offer = *offer;
  bring_up(*link, rep.first_psn, now);
  if (random_.below(16) != 0) (void)agent_.ready(event.id);
  ++figures_.as_client;
}

void HostilePeer::on_request(const cm::Event& event, Instant now) {
  const auto& req = std::get<wire::CmReq>(event.message);
  agent_.taken(event.id);
  Link* const link = random_.below(16) == 0 ? nullptr : make_link(now);
  if (link == nullptr) {
    if (random_.below(2) == 0) (void)agent_.reject(event.id, wire::reject::kConsumer, {}, now);
    return agent_.destroy(event.id, now);
  }
  link->id = event.id;
  link->victim_qpn = req.qpn;
  link->mtu = static_cast<PathMtu>(req.path_mtu_code);
  if (const auto offer = offer_in(req.private_data, wire::kCmAddressSize)) link->offer = *offer;
  bring_up(*link, req.first_psn, now);
  Side& side = sides_[link->side];
  wire::CmRep rep;
  rep.qpn = link->own_qpn;
  rep.first_psn = link->own_psn;
  rep.responder_resources = rep.initiator_depth = 4;
  rep.rnr_retry_count = 7;
  rep.ca_guid = 0x0200'00FF'FE00'0002;
  const Offer offer =
      own_offer(memory_.data(), kHalf, side.engine->info(side.source).rkey, side.engine->info(side.sink).rkey);
  put(rep.private_data, 0, emit_offer(offer));
  (void)agent_.accept(event.id, rep, now);
}

// With a message to the victim, or without.
void HostilePeer::end_old(Instant now) {
  for (auto link = links_.begin(); link != links_.end();) {
    const auto next = std::next(link);
    const bool ended = link->up && sides_[link->side].engine->query_qp(link->qp).state == QpState::kErr;
    if (now >= link->until || (ended && random_.below(16) == 0)) {
      if (link->id != 0 && agent_.state(link->id)) {
        if (random_.below(2) == 0) (void)agent_.disconnect(link->id, now);
        agent_.destroy(link->id, now);
      }
      (void)sides_[link->side].engine->destroy_qp(link->qp);
      links_.erase(link);
    }
    link = next;
  }
}

void HostilePeer::send_mads() {
  for (cm::OutgoingMad out; outbox_.poll(out);) {
    mads_.push_back(out.mad);
    send_mad(out.mad);
  }
}

void HostilePeer::send_mad(const cm::MadArray& mad) {
  PacketBytes packet(wire::kGsiPacketSize);
  wire::emit_gsi_packet(mad, Psn{static_cast<std::uint32_t>(random_.next() & 0xFF'FFFF)},
                        std::span<std::byte, wire::kGsiPacketSize>{packet});
  ++figures_.mads;
  if (random_.below(6) == 0) {
    PacketBytes changed = packet;
    for (std::uint64_t changes = 1 + random_.below(3); changes > 0; --changes) mutate_mad(changed, random_);
    ++figures_.changed;
    send(changed, true);
    if (random_.below(2) == 0) return;  // instead of the right one
  }
  send(packet, true);
}

// A message of either side, recent or old, repeated unchanged or changed.
void HostilePeer::invent_mad() {
  if (mads_.empty()) return;
  PacketBytes packet(wire::kGsiPacketSize);
  wire::emit_gsi_packet(mads_[random_.below(mads_.size())], Psn{0}, std::span<std::byte, wire::kGsiPacketSize>{packet});
  for (std::uint64_t changes = random_.below(4); changes > 0; --changes) mutate_mad(packet, random_);
  ++figures_.mads;
  ++figures_.invented;
  send(packet, true);
}

}  // namespace brdma::attacks
