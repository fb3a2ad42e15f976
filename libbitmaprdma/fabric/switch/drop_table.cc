#include "fabric/switch/drop_table.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/psn.h"

namespace brdma::fabric {
namespace {

constexpr std::uint8_t kTcp = 6;

// Numbers are circular: 24 bits of a PSN, 32 of a byte.
std::uint32_t mask_of(const DropFlow& flow) { return flow.protocol == kTcp ? 0xFFFF'FFFFu : Psn::kMask; }
std::uint32_t after(const DropFlow& flow, const DroppedPacket& packet) {
  return (packet.number + packet.length) & mask_of(flow);
}

std::uint8_t copy_quote(ConstBytes from, std::array<std::byte, DropReport::kQuoteMax>& to) {
  const std::size_t size = std::min(from.size(), to.size());
  std::copy_n(from.begin(), size, to.begin());
  return static_cast<std::uint8_t>(size);
}

}  // namespace

DropTable::DropTable(const Config& config)
    : config_(config), entries_(config.flows_max), buckets_(std::bit_ceil(config.flows_max * 2), kNone) {
  BRDMA_CHECK(config.flows_max > 0 && config.flows_max < kNone);
  for (std::size_t i = entries_.size(); i > 0; --i) {
    entries_[i - 1].chain = free_;
    free_ = static_cast<std::uint32_t>(i - 1);
  }
}

DropReports DropTable::dropped(const DropFlow& flow, const DroppedPacket& packet, Duration drain, Instant now) {
  DropReports out;
  const auto add = [&out](const DropReport& report) { out.reports[out.count++] = report; };
  ++counters_.dropped;
  std::uint32_t place = find(flow);
  const bool is_new = place == kNone;
  if (is_new && free_ == kNone) {
    const Entry& given_up = entries_[oldest_];
    if (given_up.tail != given_up.end) add(tail_report(given_up));
    remove(oldest_);
    ++counters_.displaced;
  }
  if (is_new) place = make(flow);
  Entry& entry = entries_[place];
  unlink(entry);
  link_newest(place);
  entry.last_drop = now;
  if (!is_new && packet.number == entry.end) {
    if (entry.tail == entry.end) entry.quote_size = copy_quote(packet.beginning, entry.quote);
    entry.end = after(flow, packet);
    entry.drain = drain;
    ++counters_.merged;
    return out;
  }
  if (!is_new && entry.tail != entry.end) add(tail_report(entry));
  begin_with(entry, packet);
  entry.drain = drain;
  add(first_report(entry, packet));
  return out;
}

std::optional<DropReport> DropTable::enqueued(const DropFlow& flow) {
  if (count_ == 0) return std::nullopt;
  const std::uint32_t place = find(flow);
  if (place == kNone) return std::nullopt;
  std::optional<DropReport> report;
  if (entries_[place].tail != entries_[place].end) report = tail_report(entries_[place]);
  remove(place);
  return report;
}

std::optional<DropReport> DropTable::poll_silent(Instant now) {
  while (oldest_ != kNone && now - entries_[oldest_].last_drop >= config_.silence) {
    std::optional<DropReport> report;
    if (entries_[oldest_].tail != entries_[oldest_].end) report = tail_report(entries_[oldest_]);
    remove(oldest_);
    if (!report) continue;
    ++counters_.silent;
    return report;
  }
  return std::nullopt;
}

std::optional<Instant> DropTable::next_timeout() const {
  if (oldest_ == kNone) return std::nullopt;
  return entries_[oldest_].last_drop + config_.silence;
}

void DropTable::begin_with(Entry& entry, const DroppedPacket& packet) {
  entry.start = packet.number & mask_of(entry.flow);
  entry.tail = entry.end = after(entry.flow, packet);
}

DropReport DropTable::first_report(const Entry& entry, const DroppedPacket& packet) {
  ++counters_.first;
  DropReport report{DropReport::Kind::kFirst, entry.flow, entry.start, packet.length, entry.drain, 0, {}};
  report.quote_size = copy_quote(packet.beginning, report.quote_bytes);
  return report;
}

DropReport DropTable::tail_report(const Entry& entry) {
  ++counters_.tails;
  const std::uint32_t length = (entry.end - entry.tail) & mask_of(entry.flow);
  return {DropReport::Kind::kTail, entry.flow, entry.tail, length, entry.drain, entry.quote_size, entry.quote};
}

std::size_t DropTable::bucket_of(const DropFlow& flow) const {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15u;
  const auto from = flow.source.words(), to = flow.destination.words();
  std::uint64_t hash = (from[0] ^ from[1]) * kOdd;
  hash = (hash ^ to[0] ^ to[1]) * kOdd;
  hash = (hash ^ (std::uint64_t{flow.source_port} << 48 | std::uint64_t{flow.destination_port} << 32 |
                  std::uint64_t{flow.protocol} << 24 | flow.queue_pair)) *
         kOdd;
  return static_cast<std::size_t>(hash >> 32) & (buckets_.size() - 1);
}

std::uint32_t DropTable::find(const DropFlow& flow) const {
  std::uint32_t place = buckets_[bucket_of(flow)];
  while (place != kNone && !(entries_[place].flow == flow)) place = entries_[place].chain;
  return place;
}

std::uint32_t DropTable::make(const DropFlow& flow) {
  const std::uint32_t place = free_;
  Entry& entry = entries_[place];
  free_ = entry.chain;
  entry.flow = flow;
  std::uint32_t& head = buckets_[bucket_of(flow)];
  entry.chain = head;
  head = place;
  link_newest(place);
  counters_.flows_most = std::max<std::uint64_t>(counters_.flows_most, ++count_);
  return place;
}

void DropTable::remove(std::uint32_t place) {
  Entry& entry = entries_[place];
  unlink(entry);
  std::uint32_t* link = &buckets_[bucket_of(entry.flow)];
  while (*link != place) link = &entries_[*link].chain;
  *link = entry.chain;
  entry.chain = free_;
  free_ = place;
  --count_;
}

void DropTable::unlink(Entry& entry) {
  (entry.older == kNone ? oldest_ : entries_[entry.older].newer) = entry.newer;
  (entry.newer == kNone ? newest_ : entries_[entry.newer].older) = entry.older;
  entry.older = entry.newer = kNone;
}

void DropTable::link_newest(std::uint32_t place) {
  Entry& entry = entries_[place];
  entry.older = newest_;
  entry.newer = kNone;
  (newest_ == kNone ? oldest_ : entries_[newest_].newer) = place;
  newest_ = place;
}

}  // namespace brdma::fabric
