#include "wire/crc/icrc.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <isa-l/crc.h>
#include <libdeflate.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "wire/crc/small_crc.h"
#include "wire/crc/wide_crc.h"
#include "wire/headers.h"

namespace brdma::wire {
namespace {

constexpr std::size_t kPrefixSize = 8;  // bytes 0xff, in place of InfiniBand's local route header
constexpr std::size_t kPseudoMax = kPrefixSize + kIpv6Size + kUdpSize + kBthSize;
constexpr std::size_t kBthMaskedByte = 4;  // FECN, BECN and the reserved bits beside them

// The faster of the two depends on the size only (measured, docs/reference/wire.md#icrc). libdeflate has no start-up
// cost, but loops over single bytes between 8 and 15. isa-l folds more bytes at a time, though not always as many as
// the machine can (wire/crc/wide_crc.h).
constexpr std::size_t kBulkMin = 256;
bool better_in_bulk(std::size_t size) { return size >= kBulkMin || (size >= 8 && size < 16); }

// isa-l's AVX-512 code returns with the upper halves of the vector registers in use. Until they are cleared, all SSE
// code of the process runs up to five times slower (34 ns of ICRC became 158).
#if defined(__x86_64__)
bool detect_avx() {
  constexpr unsigned kOsxsaveAndAvx = (1u << 27) | (1u << 28);
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & kOsxsaveAndAvx) == kOsxsaveAndAvx;
}
const bool has_avx = detect_avx();
void clear_upper_halves() {
  if (has_avx) __asm__ volatile("vzeroupper" ::: "memory");
}
#else
void clear_upper_halves() {}
#endif

// Both take and return a finished CRC-32 (complemented before and after, zlib's convention): a running value passes
// freely between them.
std::uint32_t extend(std::uint32_t crc, ConstBytes bytes) {
  if (internal::wide_crc_pays && wide_crc_takes(bytes.size())) return wide_crc(crc, bytes);
  if (!better_in_bulk(bytes.size())) return libdeflate_crc32(crc, bytes.data(), bytes.size());
  // isa-l's declaration lacks a const; it only reads.
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  crc = crc32_gzip_refl(crc, data, bytes.size());
  clear_upper_halves();
  return crc;
}

// IPv4 without options: TOS, TTL and checksum masked; don't-fragment set, no fragment.
std::byte* put_ipv4(const IcrcPath& path, std::size_t udp_payload_size, std::byte* out) {
  store_be16(out, 0x45FF);
  store_be16(out + 2, static_cast<std::uint16_t>(kIpv4Size + kUdpSize + udp_payload_size));
  store_be16(out + 4, path.ip_id);
  store_be16(out + 6, 0x4000);
  store_be32(out + 8, 0xFF11'FFFF);
  std::memcpy(out + 12, path.source.bytes.data() + 12, 4);
  std::memcpy(out + 16, path.destination.bytes.data() + 12, 4);
  return out + kIpv4Size;
}

// IPv6 without extension headers: traffic class, flow label and hop limit masked.
std::byte* put_ipv6(const IcrcPath& path, std::size_t udp_payload_size, std::byte* out) {
  store_be32(out, 0x6FFF'FFFF);
  store_be16(out + 4, static_cast<std::uint16_t>(kUdpSize + udp_payload_size));
  store_be16(out + 6, 0x11FF);
  std::memcpy(out + 8, path.source.bytes.data(), 16);
  std::memcpy(out + 24, path.destination.bytes.data(), 16);
  return out + kIpv6Size;
}

std::byte* put_udp(const IcrcPath& path, std::size_t udp_payload_size, std::byte* out) {
  store_be16(out, path.source_port);
  store_be16(out + 2, path.destination_port);
  store_be16(out + 4, static_cast<std::uint16_t>(kUdpSize + udp_payload_size));
  store_be16(out + 6, 0xFFFF);  // checksum, masked
  return out + kUdpSize;
}

// The effect of one byte on the CRC when `behind` more bytes follow: the CRC with byte b is the CRC with byte 0 there,
// xor table[b].
using Effects = std::array<std::uint32_t, 256>;
constexpr Effects effects(std::size_t behind) {
  constexpr std::uint32_t kPolynomial = 0xEDB8'8320;
  Effects table{};
  for (std::uint32_t byte = 1; byte < 256; byte *= 2) {
    std::uint32_t crc = byte;
    for (std::size_t bit = 0; bit < 8 * (behind + 1); ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[byte] = crc;
  }
  for (std::uint32_t byte = 1; byte < 256; ++byte) {
    const std::uint32_t low = byte & (0 - byte);
    table[byte] = table[low] ^ table[byte - low];
  }
  return table;
}
// A big-endian field of two bytes.
struct FieldEffects {
  Effects high, low;
  [[nodiscard]] std::uint32_t of(std::size_t value) const { return high[value >> 8 & 0xFF] ^ low[value & 0xFF]; }
};
constexpr FieldEffects field_effects(std::size_t behind) { return {effects(behind + 1), effects(behind)}; }
// By the number of bytes from the field to BTH.
constexpr FieldEffects kUdpLength = field_effects(2);
constexpr FieldEffects kIpv4Length = field_effects(kIpv4Size - 4 + kUdpSize);
constexpr FieldEffects kIpv4Identification = field_effects(kIpv4Size - 6 + kUdpSize);
constexpr FieldEffects kIpv6Length = field_effects(kIpv6Size - 6 + kUdpSize);

// Masks BTH in a copy of the first kSize bytes, of which `size` are used. A size known at compile time takes two or
// three instructions.
template <std::size_t kSize>
std::uint32_t extend_masked(std::uint32_t crc, ConstBytes covered, std::size_t size = kSize) {
  std::array<std::byte, kSize> start;
  std::memcpy(start.data(), covered.data(), kSize);
  start[kBthMaskedByte] = std::byte{0xFF};
  crc = extend(crc, ConstBytes{start}.first(size));
  return covered.size() > size ? extend(crc, covered.subspan(size)) : crc;
}

// A packet from BTH on: a small one at once; else its start, so that the rest is a multiple of 16. isa-l takes 30 ns
// longer over 1012 bytes than over 1024.
std::uint32_t extend_packet(std::uint32_t crc, ConstBytes covered) {
  if (small_crc_takes(covered.size())) [[likely]]
    return small_crc(crc, covered);
  const std::size_t start = 64 - (64 - covered.size()) % 16;
  if (covered.size() >= 64 && small_crc_takes(start))
    return extend(small_crc(crc, covered.first(start)), covered.subspan(start));
  if (covered.size() >= 64) return extend_masked<64>(crc, covered, start);
  if (covered.size() >= 32) return extend_masked<32>(crc, covered);
  return extend_masked<kBthSize>(crc, covered);
}

// The headers, masked in place.
std::uint32_t extend_headers(std::uint32_t crc, MutableBytes headers) {
  BRDMA_CHECK(headers.size() >= kBthSize);
  if (small_crc_takes(headers.size())) [[likely]]
    return small_crc(crc, headers);
  const std::byte masked = std::exchange(headers[kBthMaskedByte], std::byte{0xFF});
  crc = extend(crc, headers);
  headers[kBthMaskedByte] = masked;
  return crc;
}

}  // namespace

IcrcFlow::IcrcFlow(const IcrcPath& path)
    : source_port_(path.source_port), destination_port_(path.destination_port), v4_(path.source.is_v4()) {
  IcrcPath plain = path;
  plain.ip_id = 0;
  std::array<std::byte, kPseudoMax> pseudo;
  std::byte* at = pseudo.data();
  store_be64(at, ~std::uint64_t{0});
  at += kPrefixSize;
  at = v4_ ? put_ipv4(plain, 0, at) : put_ipv6(plain, 0, at);
  at = put_udp(plain, 0, at);
  without_sizes_ = extend(0, ConstBytes{pseudo.data(), at});
  // Removes the sizes of an empty payload.
  without_sizes_ ^= kUdpLength.of(kUdpSize);
  without_sizes_ ^= v4_ ? kIpv4Length.of(kIpv4Size + kUdpSize) : kIpv6Length.of(kUdpSize);
}

inline std::uint32_t IcrcFlow::before_bth(std::size_t udp_payload_size, std::uint16_t ip_id) const {
  const std::size_t udp = kUdpSize + udp_payload_size;
  const std::uint32_t crc = without_sizes_ ^ kUdpLength.of(udp);
  if (!v4_) return crc ^ kIpv6Length.of(udp);
  const std::uint32_t v4 = crc ^ kIpv4Length.of(kIpv4Size + udp);
  return ip_id == 0 ? v4 : v4 ^ kIpv4Identification.of(ip_id);  // identification 0 has no effect
}

std::uint32_t IcrcFlow::before_bth(std::size_t udp_payload_size) const { return before_bth(udp_payload_size, 0); }

Icrc::Icrc(const IcrcFlow& flow, std::uint16_t ip_id, std::size_t udp_payload_size, MutableBytes headers)
    : state_(extend_headers(flow.before_bth(udp_payload_size, ip_id), headers)) {}

std::uint32_t icrc_of_pieces(std::uint32_t before_bth, MutableBytes headers, ConstBytes payload) {
  return extend(extend_headers(before_bth, headers), payload);
}

std::uint32_t packet_icrc(const IcrcFlow& flow, std::uint16_t ip_id, ConstBytes udp_payload) {
  BRDMA_CHECK(udp_payload.size() >= kBthSize + kIcrcSize);
  return extend_packet(flow.before_bth(udp_payload.size(), ip_id), udp_payload.first(udp_payload.size() - kIcrcSize));
}

Icrc::Icrc(const IcrcPath& path, std::size_t udp_payload_size, ConstBytes headers) {
  BRDMA_CHECK(headers.size() >= kBthSize);
  std::array<std::byte, kPseudoMax> pseudo;
  std::byte* at = pseudo.data();
  store_be64(at, ~std::uint64_t{0});
  at += kPrefixSize;
  at = path.source.is_v4() ? put_ipv4(path, udp_payload_size, at) : put_ipv6(path, udp_payload_size, at);
  at = put_udp(path, udp_payload_size, at);
  std::memcpy(at, headers.data(), kBthSize);
  at[kBthMaskedByte] = std::byte{0xFF};
  at += kBthSize;
  // The headers after BTH are not copied for one longer run: a copy of unknown size takes longer than the start of a
  // second run.
  state_ = extend(0, ConstBytes{pseudo.data(), at});
  if (headers.size() > kBthSize) state_ = extend(state_, headers.subspan(kBthSize));
}

void Icrc::update(ConstBytes bytes) { state_ = extend(state_, bytes); }

// Called by a pointer for each packet's payload: one call, not two.
[[gnu::flatten]] std::uint32_t extend_icrc(std::uint32_t running, const std::byte* data, std::size_t bytes) {
  return extend(running, {data, bytes});
}

std::uint32_t packet_icrc(const IcrcPath& path, ConstBytes udp_payload) {
  BRDMA_CHECK(udp_payload.size() >= kBthSize + kIcrcSize);
  return Icrc{path, udp_payload.size(), udp_payload.first(udp_payload.size() - kIcrcSize)}.finish();
}

bool icrc_holds(const IcrcFlow& flow, ConstBytes udp_payload) {
  return packet_icrc(flow, 0, udp_payload) == load_le32(udp_payload.data() + udp_payload.size() - kIcrcSize);
}

std::uint32_t stored_icrc(ConstBytes udp_payload) {
  BRDMA_CHECK(udp_payload.size() >= kIcrcSize);
  return load_le32(udp_payload.data() + udp_payload.size() - kIcrcSize);
}

}  // namespace brdma::wire
