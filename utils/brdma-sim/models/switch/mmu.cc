#include "models/switch/mmu.h"

#include <algorithm>

#include "base/check.h"

namespace brdma::models {

namespace {
std::uint64_t bytes_in(Bandwidth rate, Duration time) {
  constexpr std::uint64_t kBitNanoseconds = 8'000'000'000;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(rate.bps()) * static_cast<std::uint64_t>(time.ns()) /
                                    kBitNanoseconds);
}
}  // namespace

std::uint64_t headroom_hpcc(Bandwidth rate, Duration one_way) { return 3 * bytes_in(rate, one_way); }

std::uint64_t headroom_conweave(Bandwidth rate, Duration one_way, std::uint32_t mtu) {
  return 2 * bytes_in(rate, one_way) + 2 * std::uint64_t{mtu};
}

std::uint64_t headroom_reverie(Bandwidth rate, Duration one_way, std::uint32_t payload) {
  constexpr std::uint64_t kHeader = 48;
  constexpr std::uint64_t kReaction = 3860;  // of the neighbour, as bytes
  return 2 * bytes_in(rate, one_way) + 2 * (payload + kHeader) + kReaction;
}

unsigned shift_hpcc(Bandwidth port, Bandwidth host) {
  unsigned shift = 3;
  for (std::uint64_t rate = port.bps(); rate > host.bps() && shift > 0; rate /= 2) --shift;
  return shift;
}

HpccMmu::HpccMmu(const Settings& settings)
    : settings_(settings), queues_(settings.ports.size() * settings.priorities), shareable_(settings.buffer) {
  for (const Port& port : settings_.ports) {
    const std::uint64_t kept = (port.headroom + settings_.reserve) * settings_.priorities;
    BRDMA_CHECK(kept <= shareable_);
    shareable_ -= kept;
  }
}

std::uint64_t HpccMmu::threshold(std::uint32_t port) const {
  return (shareable_ - std::min(shareable_, shared_)) >> settings_.ports[port].shift;
}

std::uint64_t HpccMmu::shared(const Queue& queue) const {
  return queue.bytes > settings_.reserve ? queue.bytes - settings_.reserve : 0;
}

Admission HpccMmu::admit(const Passage& packet) {
  Queue& queue = this->queue(packet);
  const std::uint64_t limit = threshold(packet.ingress);
  const bool no_headroom = packet.bytes + queue.headroom > settings_.ports[packet.ingress].headroom;
  if (no_headroom && packet.bytes + shared(queue) > limit) return {};
  used_ += packet.bytes;
  const std::uint64_t grown = queue.bytes + packet.bytes;
  if (grown > settings_.reserve && grown - settings_.reserve > limit) {
    queue.headroom += packet.bytes;
  } else {
    shared_ -= shared(queue);
    queue.bytes = grown;
    shared_ += shared(queue);
  }
  const bool pause = !queue.paused && (queue.headroom > 0 || shared(queue) >= threshold(packet.ingress));
  queue.paused |= pause;
  return {true, pause};
}

bool HpccMmu::left(const Passage& packet) {
  Queue& queue = this->queue(packet);
  const std::uint64_t of_headroom = std::min<std::uint64_t>(queue.headroom, packet.bytes);
  const std::uint64_t rest = packet.bytes - of_headroom;
  BRDMA_CHECK(rest <= queue.bytes && packet.bytes <= used_);
  queue.headroom -= of_headroom;
  shared_ -= shared(queue);
  queue.bytes -= rest;
  shared_ += shared(queue);
  used_ -= packet.bytes;
  if (!queue.paused || queue.headroom > 0) return false;
  const std::uint64_t left = shared(queue);
  if (left != 0 && left + settings_.resume_offset > threshold(packet.ingress)) return false;
  queue.paused = false;
  return true;
}

SonicMmu::SonicMmu(const Settings& settings)
    : settings_(settings),
      queues_(std::size_t{settings.ports} * settings.priorities),
      headroom_total_(settings.headroom * settings.ports * settings.lossless) {
  BRDMA_CHECK(settings_.reserve * queues_.size() <= settings_.ingress_pool);
}

std::uint64_t SonicMmu::ingress_threshold() const {
  const std::uint64_t pool = settings_.ingress_pool - settings_.reserve * queues_.size();
  const std::uint64_t shared = used_ - headroom_used_ - reserved_used_;
  if (shared >= pool) return 0;
  return static_cast<std::uint64_t>(settings_.alpha_ingress * static_cast<double>(pool - shared));
}

std::uint64_t SonicMmu::egress_threshold() const {
  if (lossy_used_ >= settings_.lossy_egress_pool) return 0;
  return static_cast<std::uint64_t>(settings_.alpha_egress *
                                    static_cast<double>(settings_.lossy_egress_pool - lossy_used_));
}

bool SonicMmu::fits_lossless(const Queue& queue, std::uint32_t bytes) const {
  const std::uint64_t all = used_ + bytes;
  if (all > settings_.buffer || all > settings_.ingress_pool + headroom_total_) return false;
  if (queue.headroom == 0) return true;
  if (bytes + headroom_used_ > headroom_total_) return false;
  return bytes + queue.ingress <= settings_.reserve || bytes + queue.headroom <= settings_.headroom;
}

bool SonicMmu::fits_lossy(const Passage& packet) const {
  const std::uint64_t in = queues_[index(packet.ingress, packet.priority)].ingress + packet.bytes;
  const std::uint64_t out = queues_[index(packet.egress, packet.priority)].egress + packet.bytes;
  if (in > ingress_threshold() && in > settings_.reserve) return false;
  if (out > egress_threshold() || packet.bytes + lossy_used_ > settings_.lossy_egress_pool) return false;
  const std::uint64_t pool = used_ - headroom_used_ + packet.bytes;
  return pool <= settings_.ingress_pool && used_ + packet.bytes <= settings_.buffer;
}

// `bytes`: of the class from now on.
void SonicMmu::change_ingress(Queue& queue, std::uint64_t bytes) {
  reserved_used_ -= std::min(queue.ingress, settings_.reserve);
  used_ = used_ - queue.ingress + bytes;
  queue.ingress = bytes;
  reserved_used_ += std::min(queue.ingress, settings_.reserve);
}

Admission SonicMmu::admit(const Passage& packet) {
  Queue& in = queues_[index(packet.ingress, packet.priority)];
  const bool lossless = is_lossless(packet);
  if (!(lossless ? fits_lossless(in, packet.bytes) : fits_lossy(packet))) return {};
  change_ingress(in, in.ingress + packet.bytes);
  queues_[index(packet.egress, packet.priority)].egress += packet.bytes;
  if (!lossless) {
    lossy_used_ += packet.bytes;
    return {true, false};
  }
  if (in.headroom > 0 || in.ingress > ingress_threshold()) {
    in.headroom += packet.bytes;
    headroom_used_ += packet.bytes;
  }
  const bool pause = !in.paused && in.headroom > 0;
  in.paused |= pause;
  return {true, pause};
}

bool SonicMmu::left(const Passage& packet) {
  Queue& in = queues_[index(packet.ingress, packet.priority)];
  Queue& out = queues_[index(packet.egress, packet.priority)];
  BRDMA_CHECK(packet.bytes <= in.ingress && packet.bytes <= out.egress);
  change_ingress(in, in.ingress - packet.bytes);
  out.egress -= packet.bytes;
  if (!is_lossless(packet)) {
    lossy_used_ -= packet.bytes;
    return false;
  }
  const std::uint64_t of_headroom = std::min<std::uint64_t>(in.headroom, packet.bytes);
  in.headroom -= of_headroom;
  headroom_used_ -= of_headroom;
  if (!in.paused || in.headroom > 0) return false;
  if (in.ingress >= settings_.xon && in.ingress + settings_.xon_offset > ingress_threshold()) return false;
  in.paused = false;
  return true;
}

Admission LossyMmu::admit(const Passage& packet) {
  std::uint64_t& bytes = queue(packet);
  if (used_ + packet.bytes > settings_.buffer) return {};
  if (bytes + packet.bytes > (settings_.buffer - used_) >> settings_.shift) return {};
  bytes += packet.bytes;
  used_ += packet.bytes;
  return {true, false};
}

bool LossyMmu::left(const Passage& packet) {
  std::uint64_t& bytes = queue(packet);
  BRDMA_CHECK(packet.bytes <= bytes);
  bytes -= packet.bytes;
  used_ -= packet.bytes;
  return false;
}

}  // namespace brdma::models
