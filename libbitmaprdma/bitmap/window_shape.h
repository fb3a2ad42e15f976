// bitmap/window_shape.h - how long a window's bitmaps are and in which pieces they are kept (design BR-32 to BR-34).
//
//   window     L: PSNs from the base on that are taken at all
//   base       B: the length of a bitmap while the PSNs in use fit; a ring of its own
//   extension  dL: beyond that it is B + k dL long, k as small as the load allows, in segments of
//   segment    S: this many PSNs; a segment is taken when a PSN first falls into it, and given back when the base has
//              left it
//
// B, dL and S are powers of two; a dL below S is taken as S, for the length grows by whole segments.
#pragma once

#include <cstdint>

namespace brdma::bitmap {

// Largest window: a quarter of the PSN space leaves "before the base" and "beyond the window" apart.
inline constexpr std::uint32_t kWindowMax = 1u << 22;
inline constexpr std::uint32_t kSegmentMin = 64, kSegmentMax = 1u << 16;

struct WindowShape {
  std::uint32_t window = 4096;
  std::uint32_t base = 128;
  std::uint32_t extension = 512;
  std::uint32_t segment = 512;
  std::uint32_t granularity = 1;  // G: PSNs a bit of the receive bitmap (arrival_bits.h)
  // The window's edge, and the memory behind it, moves by so many PSNs at a time, counted from the point where the
  // window was last empty; the base itself moves by one. A power of two, at most half of the window.
  std::uint32_t slide_step = 1;
};

// The present form of a bitmap.
struct WindowUse {
  bool segmented = false;      // else: the base ring
  std::uint32_t length = 0;    // PSNs: B, or B + k dL
  std::uint32_t segments = 0;  // taken
  std::size_t bytes = 0;       // of the pool
};

// How a bitmap's length (use().length) changed since the last query.
enum class LengthChange : std::uint8_t { kNone, kLonger, kShorter };

}  // namespace brdma::bitmap
