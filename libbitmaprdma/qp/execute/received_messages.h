// qp/execute/received_messages.h - private: the messages of in-order execution. The one in progress: what has been
// executed of it; packets of either format continue it. And how many are complete: MSN and RSN.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "wire/headers.h"

namespace brdma::qp {

class ReceivedMessages {
 public:
  enum class Kind : std::uint8_t { kNone, kSend, kWrite };

  // --- in progress ---
  [[nodiscard]] bool in_progress() const { return message_.kind != Kind::kNone; }
  [[nodiscard]] bool is_inside(Kind kind) const { return message_.kind == kind; }
  // The next packet of a message of `kind` fits: a `first` one begins it, another one continues it.
  [[nodiscard]] bool takes(Kind kind, bool first) const { return message_.kind == (first ? Kind::kNone : kind); }
  [[nodiscard]] std::uint32_t packets() const { return message_.packets; }
  [[nodiscard]] std::uint64_t bytes() const { return message_.bytes; }  // payload so far
  // Of a WRITE: of the whole message.
  [[nodiscard]] const wire::Reth& reth() const { return message_.reth; }
  void set_reth(const wire::Reth& reth) { message_.reth = reth; }
  [[nodiscard]] std::uint64_t next_address() const { return message_.reth.address + message_.bytes; }
  // A packet of bitmap mode states the whole message, and where in it its data belongs.
  [[nodiscard]] bool is_next_of_write(const wire::Reth& stated) const {
    return stated.address == next_address() && stated.rkey == message_.reth.rkey &&
           stated.length == message_.reth.length;
  }
  // A packet of it was executed that is not the last. `bytes`: so far.
  void go_on(Kind kind, std::uint64_t bytes) {
    message_.kind = kind;
    message_.bytes = bytes;
    ++message_.packets;
  }
  // Nothing of it counts any more.
  void abandon() { message_ = Message{}; }

  // --- complete; 24 bits each ---
  void complete() {
    abandon();
    count();
  }
  // One of a single packet: nothing is in progress.
  void count() { msn_ = (msn_ + 1) & Psn::kMask; }
  void count_receive() { rsn_ = (rsn_ + 1) & Psn::kMask; }
  [[nodiscard]] std::uint32_t msn() const { return msn_; }  // messages
  [[nodiscard]] std::uint32_t rsn() const { return rsn_; }  // receives

 private:
  struct Message {
    Kind kind = Kind::kNone;
    std::uint32_t packets = 0;
    std::uint64_t bytes = 0;
    wire::Reth reth;
  };
  Message message_;
  std::uint32_t msn_ = 0;
  std::uint32_t rsn_ = 0;
};

}  // namespace brdma::qp
