#include "network/icmp_intake.h"

#include <linux/icmp.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "io/daemon/lease_protocol.h"
#include "wire/edn.h"

namespace brdma::daemon {
namespace {

constexpr unsigned kBurst = 64;
constexpr std::size_t kMessageMax = 600;  // routers quote what fits into 576 bytes (RFC 1812)
constexpr std::chrono::microseconds kForAllEach{1000};
constexpr int kForAllBurst = 64;

io::FileDescriptor open_source_quench() {
  io::FileDescriptor fd{::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP)};
  if (!fd.valid()) {
    spdlog::info("no raw socket ({}): drop notifications by ICMP are not received", std::strerror(errno));
    return fd;
  }
  const icmp_filter only{~(1u << ICMP_SOURCE_QUENCH)};
  if (::setsockopt(fd.get(), SOL_RAW, ICMP_FILTER, &only, sizeof only) != 0) fd.reset();
  return fd;
}

// A token bucket, stored as the instant from which the next token is allowed.
bool take_token(std::chrono::steady_clock::time_point& allowed_from, std::chrono::microseconds each, int burst) {
  const auto now = std::chrono::steady_clock::now();
  allowed_from = std::max(allowed_from, now - each * burst);
  if (allowed_from > now) return false;
  allowed_from += each;
  return true;
}

std::string hexadecimal(ConstBytes bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte each : bytes) {
    text += kDigits[std::to_integer<unsigned>(each) >> 4];
    text += kDigits[std::to_integer<unsigned>(each) & 15];
  }
  return text;
}

}  // namespace

IcmpIntake::IcmpIntake(Processes processes) : processes_(std::move(processes)), socket_(open_source_quench()) {}

bool IcmpIntake::receive() {
  unsigned count = 0;
  for (; count < kBurst; ++count) {
    std::array<std::byte, 1500> packet;
    const ssize_t size = ::recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (size < 0) break;
    const ConstBytes bytes = ConstBytes{packet}.first(static_cast<std::size_t>(size));
    const std::size_t header = bytes.empty() ? 0 : (load_u8(bytes.data()) & 15u) * 4u;
    constexpr std::size_t kSourceAddress = 12;
    if (header >= 20 && bytes.size() > header) take(bytes.subspan(header), load_be32(bytes.data() + kSourceAddress));
  }
  flush();
  return count == kBurst;
}

void IcmpIntake::take(ConstBytes message, std::uint32_t source) {
  ++counters_.received;
  if (!may_speak(source)) {
    ++counters_.limited;
    return;
  }
  const auto said = wire::parse_icmp_edn(message);
  if (!said || message.size() > kMessageMax) {
    ++counters_.bad;
    return;
  }
  if (said->source_qpn) {
    waiting_[*said->source_qpn & (io::kSlotCount - 1)].push_back(hexadecimal(message));
    return;
  }
  if (!may_ask_all()) {
    ++counters_.limited;
    return;
  }
  for (const std::uint32_t slot : processes_.slots()) waiting_[slot].push_back(hexadecimal(message));
}

void IcmpIntake::flush() {
  for (const auto& [slot, messages] : std::exchange(waiting_, {})) {
    const Delivery delivery = processes_.deliver(slot, messages);
    (delivery == Delivery::kDone     ? counters_.handed
     : delivery == Delivery::kNobody ? counters_.nobody
                                     : counters_.unread) += messages.size();
  }
}

bool IcmpIntake::may_ask_all() { return take_token(allowed_from_, kForAllEach, kForAllBurst); }

bool IcmpIntake::may_speak(std::uint32_t source) {
  const std::uint32_t place = (source * 0x9E37'79B1u) >> 22;
  return take_token(source_allowed_from_[place], kSourceEach, kSourceBurst);
}

}  // namespace brdma::daemon
