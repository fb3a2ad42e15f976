// The identification's 16 bits enter the CRC register and are shifted through by the following bytes. Their effect is
// (bits as a polynomial) * x^(8 * bytes that follow) mod P, xor'ed into the result, independent of the rest of the
// packet. P divides no polynomial of 16 terms next to each other, so different identifications have different effects:
// at most one explains a difference, and 65,535 of 65,536 damaged packets have none.
#include <array>
#include <bit>

#include "base/check.h"
#include "wire/crc/crc_polynomial.h"
#include "wire/crc/icrc.h"
#include "wire/headers.h"

namespace brdma::wire {
namespace {

using crc::multiply;
using crc::shift_by_bytes;

constexpr std::size_t kIdBits = 16;
// The identification is bytes 4 and 5 of the IPv4 header; the packet's own ICRC is not covered.
constexpr std::size_t bytes_behind(std::size_t udp_payload_size) {
  return kIpv4Size - 6 + kUdpSize + udp_payload_size - kIcrcSize;
}

// Columns reduced so that each row alone has its pivot bit: solving is one pass.
struct Basis {
  struct Row {
    std::uint32_t pivot = 0;
    std::uint32_t effect = 0;
    std::uint32_t id = 0;  // the identification bits that make up `effect`
  };
  std::size_t udp_payload_size = 0;  // 0: unused
  std::array<Row, kIdBits> rows{};
};

void build(Basis& basis, std::size_t udp_payload_size) {
  // The register takes two bytes as if xor'ed into its low half, first byte lowest, then shifted by 16.
  const std::uint32_t shift = shift_by_bytes(2 + bytes_behind(udp_payload_size));
  for (std::size_t i = 0; i < kIdBits; ++i) {
    const std::uint32_t id = std::uint32_t{1} << i;
    const std::uint32_t wire_order = ((id & 0xFF) << 8) | (id >> 8);  // first byte on the wire in the low bits
    basis.rows[i] = {.pivot = 0, .effect = multiply(wire_order, shift), .id = id};
  }
  for (std::size_t i = 0; i < kIdBits; ++i) {
    auto& row = basis.rows[i];
    BRDMA_CHECK(row.effect != 0);  // the columns are independent, see above
    row.pivot = std::bit_floor(row.effect);
    for (std::size_t j = 0; j < kIdBits; ++j) {
      auto& other = basis.rows[j];
      if (j == i || (other.effect & row.pivot) == 0) continue;
      other.effect ^= row.effect;
      other.id ^= row.id;
    }
  }
  basis.udp_payload_size = udp_payload_size;
}

// Sizes are multiples of four and few are in use at a time: full packets, one or two tails, acknowledgements.
constexpr std::size_t kBasesMax = 64;

}  // namespace

std::uint32_t icrc_change(ConstBytes difference, std::size_t bytes_behind) {
  std::uint32_t state = 0;
  for (const std::byte byte : difference) {
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = crc::times_x(state);
  }
  return multiply(state, shift_by_bytes(bytes_behind));
}

struct IdentificationSolver::State {
  std::array<Basis, kBasesMax> bases;
};

IdentificationSolver::IdentificationSolver() : state_(std::make_unique<State>()) {}
IdentificationSolver::~IdentificationSolver() = default;

bool IdentificationSolver::solve(std::uint32_t icrc_difference, std::size_t udp_payload_size, std::uint16_t& ip_id) {
  BRDMA_CHECK(udp_payload_size >= kBthSize + kIcrcSize);
  Basis& basis = state_->bases[udp_payload_size / 4 % kBasesMax];  // a size in the other's place is rebuilt: a few us
  if (basis.udp_payload_size != udp_payload_size) build(basis, udp_payload_size);
  std::uint32_t rest = icrc_difference;
  std::uint32_t id = 0;
  for (const auto& row : basis.rows) {
    const std::uint32_t take = (icrc_difference & row.pivot) != 0 ? ~std::uint32_t{0} : 0;
    rest ^= row.effect & take;
    id ^= row.id & take;
  }
  if (rest != 0) return false;
  ip_id = static_cast<std::uint16_t>(id);
  return true;
}

}  // namespace brdma::wire
