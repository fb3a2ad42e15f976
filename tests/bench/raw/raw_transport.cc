#include "raw_transport.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace raw {
namespace {

using namespace brdma;  // base/bytes.h

constexpr std::uint8_t kWriteOnly = 0x0A, kAcknowledge = 0x11;
constexpr std::uint32_t kPsnMask = 0xFF'FFFF, kKey = 0x55AA;
constexpr std::uint64_t kTimeoutNs = 100'000'000;
constexpr std::size_t kCompletionsMax = 1024;  // more than can be in flight

void put_bth(std::byte* at, std::uint8_t opcode, std::uint32_t connection, std::uint32_t psn) {
  store_be32(at, std::uint32_t{opcode} << 24 | 0xFFFF);  // of the default partition
  store_be32(at + 4, connection);
  store_be32(at + 8, psn);
}

void seal(const wire::IcrcFlow& flow, std::byte* packet, std::size_t size) {
  const std::uint32_t icrc = wire::packet_icrc(flow, 0, {packet, size});
  std::memcpy(packet + size - kIcrc, &icrc, kIcrc);  // little endian, as this machine
}

bool whole(const wire::IcrcFlow& flow, ConstBytes packet) {
  return wire::packet_icrc(flow, 0, packet) == wire::stored_icrc(packet);
}

wire::IcrcFlow any_flow() {
  return wire::IcrcFlow{{IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2), 0xC000, 4791, 0}};
}

}  // namespace

Requester::Requester(std::size_t connections, std::size_t depth, std::size_t far)
    : memory_(4096, std::byte{7}),
      connections_(connections),
      depth_(std::bit_ceil(depth)),
      windows_(connections * depth_),
      completions_(kCompletionsMax),
      flow_(any_flow()) {
  for (std::size_t i = 0; i < connections; ++i)
    connections_[i] = {
        .peer = static_cast<std::uint32_t>(i), .rkey = kKey, .place = i * kPayload % (far - kPayload + 1)};
}

void Requester::build(std::size_t count, std::uint64_t now_ns, std::byte* out) {
  for (std::size_t i = 0; i < count; ++i, out += kPacket) {
    Connection& connection = connections_[turn_];
    Entry& entry = windows_[turn_ * depth_ + (connection.next & (depth_ - 1))];
    if (++turn_ == connections_.size()) turn_ = 0;
    if (connection.next == connection.base) connection.deadline_ns = now_ns + kTimeoutNs;
    entry = {id_++, kPayload, connection.next};
    put_bth(out, kWriteOnly, connection.peer, connection.next & kPsnMask);
    ++connection.next;
    store_be64(out + kBth, connection.place);
    store_be32(out + kBth + 8, connection.rkey);
    store_be32(out + kBth + 12, kPayload);
    std::memcpy(out + kBth + kReth, memory_.data() + (id_ * kPayload & 4095), kPayload);
    seal(flow_, out, kPacket);
  }
}

void Requester::take(ConstBytes acknowledgements, std::uint64_t now_ns) {
  for (; acknowledgements.size() >= kAck; acknowledgements = acknowledgements.subspan(kAck)) {
    const ConstBytes packet = acknowledgements.first(kAck);
    const std::uint32_t number = load_be32(packet.data() + 4);
    if (!whole(flow_, packet) || load_u8(packet.data()) != kAcknowledge || number >= connections_.size()) {
      ++refused_;
      continue;
    }
    Connection& connection = connections_[number];
    const std::uint32_t acknowledged = (load_be32(packet.data() + 8) - connection.base + 1) & kPsnMask;
    if (acknowledged == 0 || acknowledged > connection.next - connection.base) {
      ++refused_;
      continue;
    }
    for (const std::uint32_t end = connection.base + acknowledged; connection.base != end; ++connection.base) {
      const Entry& entry = windows_[number * depth_ + (connection.base & (depth_ - 1))];
      completions_[completed_++ & (kCompletionsMax - 1)] = {entry.id, number, entry.bytes};
    }
    connection.deadline_ns = now_ns + kTimeoutNs;
  }
}

std::size_t Requester::poll() {
  const std::size_t count = completed_ - polled_;
  for (; polled_ != completed_; ++polled_) seen_ += completions_[polled_ & (kCompletionsMax - 1)].bytes;
  return count;
}

Responder::Responder(std::size_t connections, std::size_t memory)
    : memory_(memory), connections_(connections), flow_(any_flow()) {
  for (std::size_t i = 0; i < connections; ++i)
    connections_[i] = {.peer = static_cast<std::uint32_t>(i), .rkey = kKey, .bytes = memory};
}

void Responder::acknowledge(const Connection& connection, std::byte* out) const {
  put_bth(out, kAcknowledge, connection.peer, (connection.expected - 1) & kPsnMask);
  store_be32(out + kBth, connection.message & kPsnMask);  // AETH
  seal(flow_, out, kAck);
}

std::size_t Responder::take(ConstBytes packets, std::byte* out) {
  std::size_t answers = 0;
  const Connection* owed = nullptr;  // of the run before
  for (; packets.size() >= kPacket; packets = packets.subspan(kPacket)) {
    const ConstBytes packet = packets.first(kPacket);
    const std::uint32_t number = load_be32(packet.data() + 4);
    if (!whole(flow_, packet) || load_u8(packet.data()) != kWriteOnly || number >= connections_.size()) {
      ++refused_;
      continue;
    }
    Connection& connection = connections_[number];
    const std::uint64_t place = load_be64(packet.data() + kBth);
    const std::uint32_t rkey = load_be32(packet.data() + kBth + 8), bytes = load_be32(packet.data() + kBth + 12);
    if (load_be32(packet.data() + 8) != (connection.expected & kPsnMask) || rkey != connection.rkey ||
        bytes != kPayload || place < connection.place || place - connection.place > connection.bytes - bytes) {
      ++refused_;
      continue;
    }
    std::memcpy(memory_.data() + (place - connection.place), packet.data() + kBth + kReth, kPayload);
    ++connection.expected;
    ++connection.message;
    if (owed != nullptr && owed != &connection) acknowledge(*owed, out + kAck * answers++);
    owed = &connection;
  }
  if (owed != nullptr) acknowledge(*owed, out + kAck * answers++);
  return answers;
}

}  // namespace raw
