// registry/receive_registry.h - the receiver's operations (spec 4: receiver): which addresses are expected, and which
// of their packets are here. The packet of type start of operation registers one; each further packet is matched by
// its operation's number and computes its bit from its target address.
//
// Division of labour with the receive window: the window says which PSNs have arrived, what is acknowledged and in
// which order things complete; the registry says where a packet of an operation goes, whether it is here already, and
// when the operation is whole. What has ended is forgotten by release(), told in completed().
// Limits: one operation a number; kOperationsMax numbers. Memory: 8 entries at first, doubled when two numbers of
// operations under way share a place.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/vector_bytes.h"
#include "registry/mask.h"

namespace brdma::registry {

inline constexpr std::size_t kOperationsMax = 256;
using OperationMask = Mask<256>;

// What a start of operation says.
struct OperationStart {
  std::uint64_t address = 0;      // of its first byte; SENDs: offset in the receive buffer
  std::uint32_t rkey = 0;         // that it was checked under
  std::uint16_t packets = 1;      // at most 255
  std::uint8_t packet_shift = 0;  // log2 of the bytes of all packets but perhaps the last
  std::uint8_t number = 0;
  bool last = false;  // of its command
  // Where `address` lies and how many bytes of it were checked, if that is known; good while `memory_version` holds.
  std::byte* memory = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t memory_version = 0;
};

struct Operation {
  explicit Operation(const OperationStart& by) : start(by), mask(by.packets) {}
  OperationStart start;
  OperationMask mask;
};

enum class Match : std::uint8_t {
  kNone,       // not registered: for the escape channel
  kNew,        // its bit was not set, and is now
  kComplete,   // likewise, and it was the last one missing
  kDuplicate,  // unchanged mask
  kOutside,    // registered, but that address or that number of packets is not the operation's
};

class ReceiveRegistry {
 public:
  // Registers an operation, its first packet here. False: that number is taken.
  bool begin(const OperationStart& start);
  [[nodiscard]] const Operation* find(std::uint8_t number) const;
  // How a packet stands that goes to `address`, of an operation of `packets`; sets no bit.
  [[nodiscard]] Match look(std::uint8_t number, std::uint64_t address, std::uint16_t packets) const;
  // The same, and its bit is set.
  Match receive(std::uint8_t number, std::uint64_t address, std::uint16_t packets);
  // Likewise, of a packet that has been executed: where it is the operation's last, that is done with and forgotten.
  struct Executed {
    Match match = Match::kNone;
    bool ended = false;
  };
  Executed execute(std::uint8_t number, std::uint64_t address, std::uint16_t packets);
  // The operation is done with: all of it has been executed. Nothing happens where there is none.
  void release(std::uint8_t number);
  void clear();  // and numbers begin anew

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t allocated_bytes() const {
    return vector_bytes(slots_) + vector_bytes(operations_) + vector_bytes(free_);
  }
  // An operation has been registered since the beginning: the next has something to say.
  [[nodiscard]] bool used() const { return !operations_.empty(); }
  // For acknowledgements: all operations before `next` are complete; bit i of `beyond`, counted from the most
  // significant one, tells of operation next + 1 + i.
  struct Completed {
    std::uint8_t next = 0;
    std::uint8_t beyond = 0;
  };
  [[nodiscard]] Completed completed() const;

 private:
  [[nodiscard]] std::size_t place(std::uint8_t number) const { return number & (slots_.size() - 1); }
  [[nodiscard]] Operation* at(std::uint8_t number);
  Match judge(const Operation& operation, std::uint64_t address, std::uint16_t packets, std::size_t& bit) const;
  Match enter(Operation& operation, std::uint64_t address, std::uint16_t packets);
  void vacate(std::uint8_t number);  // precondition: it is there
  void complete(std::uint8_t number);
  void grow();

  static constexpr std::uint16_t kNone = 0xFFFF;
  std::vector<std::uint16_t> slots_;  // index into operations_ by low bits of the number
  std::vector<Operation> operations_;
  std::vector<std::uint16_t> free_;
  std::size_t count_ = 0;
  std::uint8_t next_ = 0;                 // all before it are complete
  std::bitset<kOperationsMax> complete_;  // of those from next_ on
};

}  // namespace brdma::registry
