#include "hostile_peer.h"

#include <algorithm>
#include <cstring>

#include "io/shard/clock.h"
#include "wire/cm/cm_address.h"
#include "wire/packet.h"

namespace brdma::attacks {
namespace {

constexpr std::uint32_t kAll = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
constexpr std::uint32_t kSlotBits = 8, kFirstSlot = 2;

PacketBytes gathered(std::span<const Slice> slices) {
  PacketBytes bytes;
  for (const Slice& slice : slices) {
    const auto* const data = static_cast<const std::byte*>(slice.data);
    bytes.insert(bytes.end(), data, data + slice.size);
  }
  return bytes;
}

bool shows_secret(const PacketBytes& packet) {
  return ::memmem(packet.data(), packet.size(), kSecret.data(), kSecret.size()) != nullptr;
}

}  // namespace

HostilePeer::HostilePeer(const HostileOptions& options)
    : options_(options),
      random_(options.seed, "hostile"),
      socket_(options.own, options.victim),
      memory_(2 * kHalf),
      agent_({.id_prefix = 1, .seed = options.seed, .time_wait = 50_ms}, outbox_) {
  for (std::size_t i = 0; i < kHalf; ++i) memory_[i] = static_cast<std::byte>(kHostileBit | random_.below(0x80));
  make_side(0, RecoveryMode::kBitmap);
  make_side(1, RecoveryMode::kStandard);
  (void)agent_.listen(wire::service_id(wire::PortSpace::kTcp, kHostilePort), 64);
}

HostilePeer::~HostilePeer() = default;

void HostilePeer::make_side(std::size_t index, RecoveryMode mode) {
  Side& side = sides_[index];
  EngineConfig config;
  config.recovery.mode = mode;
  config.seed = options_.seed + index;
  config.slot = static_cast<std::uint32_t>(kFirstSlot + index);
  config.slot_bits = kSlotBits;
  config.source_ports = {PeerSocket::kSourcePort};
  side.engine = std::make_unique<Engine>(config, side.statistics, nullptr);
  side.pd = side.engine->alloc_pd();
  side.cq = side.engine->create_cq(1 << 14, nullptr, {.ignore_overrun = true}).value();
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  side.source = side.engine->register_memory(side.pd, address, kHalf, address, kAccessRemoteRead).value();
  side.sink = side.engine->register_memory(side.pd, address + kHalf, kHalf, address + kHalf, kAll).value();
}

void HostilePeer::run() {
  const Instant end = io::monotonic_now() + Duration::from_ns(static_cast<std::int64_t>(options_.seconds * 1e9));
  for (Instant now = io::monotonic_now(); now < end; now = io::monotonic_now()) {
    receive(now);
    for (Side& side : sides_) {
      if (const auto due = side.engine->next_timeout(); due && *due <= now) side.engine->handle_timeout(now);
    }
    if (const auto due = agent_.next_timeout(); due && *due <= now) agent_.handle_timeout(now);
    take_events(now);
    attack(now);
    pump(now);
    take_completions();
    send_mads();
    end_old(now);
    socket_.wait(1);
  }
}

void HostilePeer::receive(Instant now) {
  constexpr int kRound = 256;
  PacketBytes packet;
  std::uint16_t port = 0;
  for (int i = 0; i < kRound && socket_.receive(packet, port); ++i) {
    ++figures_.received;
    if (shows_secret(packet)) ++figures_.leaks;
    const wire::Bth bth = wire::parse_bth(ConstBytes{packet}.first<wire::kBthSize>());
    if (bth.dest_qpn == wire::kGsiQpn) {
      const auto mad = wire::parse_gsi_packet(packet);
      if (!mad) continue;
      cm::MadArray& kept = mads_.emplace_back();
      std::copy(mad->begin(), mad->end(), kept.begin());
      if (const auto message = wire::parse_cm(*mad))
        agent_.handle({.local = socket_.own(), .remote = socket_.victim()}, *message, now);
      continue;
    }
    Link* const link = find_own(bth.dest_qpn);
    if (link == nullptr) continue;
    if (bth.opcode < wire::kTransportControl && bth.opcode != wire::kCnpOpcode) link->seen = bth.psn;
    const Datagram datagram{
        .source = socket_.victim(), .destination = socket_.own(), .source_port = port, .bytes = packet};
    sides_[link->side].engine->handle_datagram(datagram, now);
  }
  while (mads_.size() > kKept) mads_.pop_front();
}

void HostilePeer::pump(Instant now) {
  for (Side& side : sides_) {
    Transmit out;
    for (int i = 0; i < 512 && side.engine->poll_transmit(*buffer_, out, now); ++i) {
      PacketBytes packet = gathered(out.slices);
      const wire::Bth bth = wire::parse_bth(ConstBytes{packet}.first<wire::kBthSize>());
      Link* const link = find_victims(bth.dest_qpn);
      if (link != nullptr) {
        link->sent = bth.psn;
        link->kept.push_back(packet);
        if (link->kept.size() > kKept) link->kept.pop_front();
      }
      leave(link, std::move(packet));
    }
    while (side.engine->poll_notification()) {
    }
  }
}

// Unchanged, or not.
void HostilePeer::leave(Link* link, PacketBytes packet) {
  if (link == nullptr || !random_.chance_per_million(link->chance)) {
    send(packet, false);
    if (!late_.empty()) send(late_, false);
    late_.clear();
    return;
  }
  switch (random_.below(8)) {
    case 0:
      return;
    case 1:
      send(packet, false);
      return send(packet, false);
    case 2:
      late_ = std::move(packet);
      return;
    case 3:
      send(packet, false);
      [[fallthrough]];
    default:
      for (std::uint64_t changes = 1 + random_.below(3); changes > 0; --changes) mutate(packet, random_);
      ++figures_.changed;
      send(packet, random_.below(64) != 0);
  }
}

void HostilePeer::send(PacketBytes& packet, bool sign) {
  if (sign && packet.size() >= wire::kBthSize + wire::kIcrcSize) socket_.sign(packet);
  socket_.send(packet);
  ++figures_.packets;
}

void HostilePeer::take_completions() {
  std::array<Completion, 64> some;
  for (Side& side : sides_) {
    for (std::size_t got = 0; (got = side.engine->poll_cq(side.cq, some)) > 0;) {
      for (std::size_t i = 0; i < got; ++i)
        ++(some[i].status == CompletionStatus::kSuccess ? figures_.completed : figures_.failed);
    }
  }
}

void HostilePeer::attack(Instant now) {
  if (links_.size() < kLinksMax && random_.below(8) == 0) connect(now);
  if (random_.below(4) == 0) invent_mad();
  for (std::uint64_t i = 0, steps = random_.below(24); i < steps; ++i) {
    Link* const link = any_link();
    if (link == nullptr) return;
    const std::uint64_t which = link->careful && random_.below(16) != 0 ? 0 : random_.below(8);
    if (which < 4) {
      post_work(*link, now);
    } else if (which < 6 && !link->kept.empty()) {
      PacketBytes packet = link->kept[random_.below(link->kept.size())];
      for (std::uint64_t changes = random_.below(3); changes > 0; --changes) mutate(packet, random_);
      if (random_.below(2) == 0 && packet.size() > 16)  // at the next expected PSN
        store_be24(&packet[9], near(link->sent).value());
      ++figures_.invented;
      send(packet, true);
    } else {
      invent(*link, now);
    }
  }
}

// Permitted work, and some that is not; then its own queue pair is the one that ends.
void HostilePeer::post_work(Link& link, Instant now) {
  // The victim grants the last two to nobody.
  static constexpr WorkOpcode kKinds[] = {WorkOpcode::kRdmaWrite,      WorkOpcode::kRdmaWrite,
                                          WorkOpcode::kSend,           WorkOpcode::kRdmaRead,
                                          WorkOpcode::kAtomicFetchAdd, WorkOpcode::kAtomicCmpSwap,
                                          WorkOpcode::kAtomicWrite,    WorkOpcode::kRdmaWriteWithImm,
                                          WorkOpcode::kFlush,          WorkOpcode::kSendWithInvalidate};
  Side& side = sides_[link.side];
  SendRequest request;
  request.opcode = kKinds[random_.below(std::size(kKinds) - (link.careful ? 2 : 0))];
  const bool harmless = link.careful || random_.below(16) != 0;
  const RegionOffer& region = link.offer[harmless ? kWritable : random_.below(kOfferedRegions)];
  const bool reads = request.opcode == WorkOpcode::kRdmaRead || request.opcode == WorkOpcode::kAtomicFetchAdd ||
                     request.opcode == WorkOpcode::kAtomicCmpSwap;
  const bool word = request.opcode >= WorkOpcode::kAtomicCmpSwap && request.opcode <= WorkOpcode::kAtomicFetchAdd;
  const bool small = word || request.opcode == WorkOpcode::kAtomicWrite;
  const bool sends = link.careful && request.opcode == WorkOpcode::kSend;
  const auto size =
      static_cast<std::uint32_t>(small ? 8 : 1 + random_.below(random_.below(4) == 0 && !sends ? 20000 : 2048));
  const std::uint64_t room = region.length > size ? region.length - size : 1;
  request.remote_address = region.address + random_.below(harmless ? room : std::uint64_t{region.length} + 16384);
  if (!harmless) request.remote_address -= random_.below(8192);
  if (small && (link.careful || random_.below(8) != 0)) request.remote_address &= ~std::uint64_t{7};
  request.rkey = region.key ^ (!harmless && random_.below(4) == 0 ? 1u << random_.below(32) : 0);
  request.compare_or_add = random_.next() | 0x8080'8080'8080'8080;
  request.swap = random_.next() | 0x8080'8080'8080'8080;
  if (request.opcode == WorkOpcode::kFlush) {
    request.compare_or_add = size;
    request.swap = 1;
  }
  request.immediate_be = request.opcode == WorkOpcode::kSendWithInvalidate ? region.key : 0x8080'8080;
  const MemoryRegionInfo keys = side.engine->info(reads ? side.sink : side.source);
  const auto memory = reinterpret_cast<std::uintptr_t>(memory_.data()) + (reads ? kHalf : 0);
  const Sge sge{memory + random_.below(kHalf - size), size, keys.lkey};
  if (request.opcode != WorkOpcode::kFlush) request.sges = {&sge, 1};
  request.flags = kSendSignaled | (random_.below(8) == 0 ? kSendFence : 0);
  (void)side.engine->post_send(link.qp, request, now);
}

HostilePeer::Link* HostilePeer::find_own(std::uint32_t qpn) {
  const auto found =
      std::find_if(links_.begin(), links_.end(), [qpn](const Link& link) { return link.own_qpn == qpn; });
  return found == links_.end() ? nullptr : &*found;
}

HostilePeer::Link* HostilePeer::find_victims(std::uint32_t qpn) {
  const auto found =
      std::find_if(links_.begin(), links_.end(), [qpn](const Link& link) { return link.victim_qpn == qpn; });
  return found == links_.end() ? nullptr : &*found;
}

HostilePeer::Link* HostilePeer::any_link() {
  if (links_.empty()) return nullptr;
  const auto found = std::next(links_.begin(), static_cast<std::ptrdiff_t>(random_.below(links_.size())));
  return found->up ? &*found : nullptr;
}

}  // namespace brdma::attacks
