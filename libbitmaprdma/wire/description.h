// wire/description.h - what a described packet (BXTH) has in place of its data: where they lie in the memory of the
// process that sent it. Layout: docs/wire.md#descriptions.
//   0 key | 8 pieces: 0 address, 8 length
// The key is the first word of the sender's nonce (CAPS), which nobody else has been told.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/local_memory.h"

namespace brdma::wire {

struct Description {
  static constexpr std::size_t kPiecesMax = 20;
  static constexpr std::uint32_t kBytesMax = 1u << 20;  // of the data of one packet

  std::uint64_t key = 0;
  std::size_t piece_count = 0;
  std::uint32_t bytes = 0;  // of all pieces
  std::array<LocalPiece, kPiecesMax> piece;

  [[nodiscard]] std::span<const LocalPiece> pieces() const { return {piece.data(), piece_count}; }
};

inline constexpr std::size_t kDescriptionKeySize = 8, kDescriptionPieceSize = 12;
inline constexpr std::size_t kDescriptionSizeMax =
    kDescriptionKeySize + Description::kPiecesMax * kDescriptionPieceSize;
[[nodiscard]] constexpr std::size_t description_size(std::size_t pieces) {
  return kDescriptionKeySize + pieces * kDescriptionPieceSize;
}

// nullopt: no piece, too many, an empty one, more than kBytesMax, or a size that does not fit.
[[nodiscard]] std::optional<Description> parse_description(ConstBytes payload);
// Bytes of the data alone. Precondition: parse_description(payload) has a value.
[[nodiscard]] std::uint32_t described_bytes(ConstBytes payload);
// Answers the size. Precondition: 1..kPiecesMax pieces, none empty.
std::size_t emit_description(std::uint64_t key, std::span<const LocalPiece> pieces, std::byte* out);

}  // namespace brdma::wire
