#include "wire/icrc.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <isa-l/crc.h>
#include <libdeflate.h>

#include <array>
#include <cstring>

#include "base/check.h"
#include "wire/headers.h"

namespace brdma::wire {
namespace {

constexpr std::size_t kPrefixSize = 8;  // bytes 0xff: where InfiniBand's local route header would be
constexpr std::size_t kPseudoMax = kPrefixSize + kIpv6Size + kUdpSize + kBthSize;
constexpr std::size_t kBthMaskedByte = 4;  // FECN, BECN and the reserved bits beside them

// Which of the two is faster depends on the size only (measured, docs/wire.md#icrc): libdeflate has no start-up cost,
// but a loop over single bytes between 8 and 15; isa-l folds more bytes at a time.
constexpr std::size_t kBulkMin = 256;
bool better_in_bulk(std::size_t size) { return size >= kBulkMin || (size >= 8 && size < 16); }

// isa-l's AVX-512 code returns with the upper halves of the vector registers in use. Until somebody clears them, all
// SSE code of the process, ours and the application's, runs up to five times slower (34 ns of ICRC became 158).
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

// Both take and give a finished CRC-32 (complemented before and after, zlib's convention), so a running value passes
// between them freely.
std::uint32_t extend(std::uint32_t crc, ConstBytes bytes) {
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

}  // namespace

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
  // The headers behind BTH are not copied for one longer run: a copy of a size that the compiler does not know takes
  // longer than a second run's start.
  state_ = extend(0, ConstBytes{pseudo.data(), at});
  if (headers.size() > kBthSize) state_ = extend(state_, headers.subspan(kBthSize));
}

void Icrc::update(ConstBytes bytes) { state_ = extend(state_, bytes); }

std::uint32_t packet_icrc(const IcrcPath& path, ConstBytes udp_payload) {
  BRDMA_CHECK(udp_payload.size() >= kBthSize + kIcrcSize);
  return Icrc{path, udp_payload.size(), udp_payload.first(udp_payload.size() - kIcrcSize)}.finish();
}

std::uint32_t stored_icrc(ConstBytes udp_payload) {
  BRDMA_CHECK(udp_payload.size() >= kIcrcSize);
  return load_le32(udp_payload.data() + udp_payload.size() - kIcrcSize);
}

}  // namespace brdma::wire
