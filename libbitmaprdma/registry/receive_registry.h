// registry/receive_registry.h - the receiver's operations (design RR-10): expected addresses and arrived packets.
// The packet of type start of operation registers one. Each further packet is matched by its operation's number; its
// target address gives its bit.
//
// Division of labour with the receive window: the window knows the arrived PSNs, acknowledgements and the order of
// completion. The registry knows where a packet of an operation goes, whether it is a duplicate, and when the operation
// is complete. Ended operations are forgotten by release() and reported in completed(). Limits: one operation a number;
// kOperationsMax numbers. Memory: 8 entries at first, doubled when the numbers of two operations in progress share a
// place.
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

// The fields of a start of operation.
struct OperationStart {
  std::uint64_t address = 0;      // of its first byte; SENDs: offset in the receive buffer
  std::uint32_t rkey = 0;         // key that it was checked under
  std::uint16_t packets = 1;      // at most 255
  std::uint8_t packet_shift = 0;  // log2 of the bytes of each packet; the last may be shorter
  std::uint8_t number = 0;
  bool last = false;  // of its command
  // Where `address` lies and how many bytes of it were checked, if known; valid while `memory_version` holds.
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
  kComplete,   // the same, and it was the last one missing
  kDuplicate,  // unchanged mask
  kOutside,    // registered, but that address or that number of packets is not the operation's
};

class ReceiveRegistry {
 public:
  // Registers an operation, its first packet here. False: that number is taken.
  bool begin(const OperationStart& start);
  [[nodiscard]] const Operation* find(std::uint8_t number) const;
  // Classifies a packet to `address`, of an operation of `packets`; sets no bit.
  [[nodiscard]] Match look(std::uint8_t number, std::uint64_t address, std::uint16_t packets) const;
  // The same, and sets its bit.
  Match receive(std::uint8_t number, std::uint64_t address, std::uint16_t packets);
  // The same for an executed packet: if it is the operation's last, the operation is done and forgotten.
  struct Executed {
    Match match = Match::kNone;
    bool ended = false;
  };
  Executed execute(std::uint8_t number, std::uint64_t address, std::uint16_t packets);
  // The operation is fully executed: forgets it. No effect where there is none.
  void release(std::uint8_t number);
  void clear();  // and numbers restart

  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t allocated_bytes() const {
    return vector_bytes(slots_) + vector_bytes(operations_) + vector_bytes(free_);
  }
  // An operation has been registered before: acknowledgements have an operation state to report.
  [[nodiscard]] bool used() const { return !operations_.empty(); }
  // For acknowledgements: all operations before `next` are complete; bit i of `beyond`, counted from the most
  // significant one, is operation next + 1 + i.
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
  void vacate(std::uint8_t number);  // precondition: registered
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
