// tests/attacks/mutate.h - changes a packet in one of its fields: near to its value, at a limit, or to anything. Knows
// the offsets of each opcode's fields (docs/reference/wire.md); the sender computes the ICRC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace brdma::attacks {

using PacketBytes = std::vector<std::byte>;

// One field, its opcode, or the length. Payload that is added has kHostileBit in each byte.
void mutate(PacketBytes& packet, Random& random);
// Of a MAD as it travels: a field of the message, its kind, an id, the private data.
void mutate_mad(PacketBytes& packet, Random& random);
// `bytes` of them, at most 8, big endian.
void mutate_number(std::byte* at, std::size_t bytes, Random& random);

}  // namespace brdma::attacks
