// tests/attacks/offer.h - each side's description of its memory in the private data of a REQ or REP: three regions,
// which the other may write and read, only read, and not touch at all (its key is sent all the same).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace brdma::attacks {

struct RegionOffer {
  std::uint64_t address = 0;
  std::uint32_t key = 0, length = 0;
};
enum OfferedRegion : std::size_t { kWritable, kReadable, kForbidden, kOfferedRegions };
using Offer = std::array<RegionOffer, kOfferedRegions>;
inline constexpr std::size_t kOfferSize = kOfferedRegions * 16;

namespace internal {
inline void put(std::uint8_t*& at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) *at++ = static_cast<std::uint8_t>(value >> (8 * i));
}
inline std::uint64_t get(const std::uint8_t*& at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | *at++;
  return value;
}
}  // namespace internal

[[nodiscard]] inline std::array<std::uint8_t, kOfferSize> emit_offer(const Offer& offer) {
  std::array<std::uint8_t, kOfferSize> bytes{};
  std::uint8_t* at = bytes.data();
  for (const RegionOffer& region : offer) {
    internal::put(at, region.address, 8);
    internal::put(at, region.key, 4);
    internal::put(at, region.length, 4);
  }
  return bytes;
}
// From a peer that may have sent anything; none: too short.
[[nodiscard]] inline std::optional<Offer> parse_offer(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kOfferSize) return std::nullopt;
  Offer offer;
  const std::uint8_t* at = bytes.data();
  for (RegionOffer& region : offer) {
    region.address = internal::get(at, 8);
    region.key = static_cast<std::uint32_t>(internal::get(at, 4));
    region.length = static_cast<std::uint32_t>(internal::get(at, 4));
  }
  return offer;
}

// Bytes that no peer may ever read are this word, repeated; a peer that sees it has read forbidden memory.
inline constexpr std::array<std::uint8_t, 8> kSecret{0x53, 0x65, 0x43, 0x72, 0x45, 0x74, 0x21, 0x7E};
// A hostile peer's data has this bit in each byte; the victim's memory has it in none.
inline constexpr std::uint8_t kHostileBit = 0x80;

inline constexpr std::uint16_t kVictimPort = 7471, kHostilePort = 7472;

}  // namespace brdma::attacks
