// qp/queues/send_queue.h - the posted and not completed work requests of a queue pair, in posting order. A work
// request's number is the count of those posted before it. Three numbers divide the queue:
//   head() <= next() <= tail()     [head, next): begun, not complete   [next, tail): waiting   tail: the next post
// Scatter lists and inline data lie beside the requests, a fixed room each. The room grows with the posted requests, up
// to the queue pair's limit, and stays: posting allocates only when the queue gets longer than ever before. Inline data
// never moves, since a batch not sent yet points to it: its room is allocated in full with the first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/fetch_ahead.h"
#include "bitmaprdma/types.h"

namespace brdma::qp {

// Executed locally in its turn; no packet leaves.
[[nodiscard]] inline bool is_local(WorkOpcode opcode) {
  return opcode == WorkOpcode::kLocalInvalidate || opcode == WorkOpcode::kBindMw;
}

[[nodiscard]] inline bool is_send(WorkOpcode opcode) {
  return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendWithImm || opcode == WorkOpcode::kSendWithInvalidate;
}

struct SendWqe {
  std::uint64_t wr_id = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
  std::uint32_t length = 0;  // of the whole message
  std::uint32_t rkey = 0;
  std::uint32_t immediate_be = 0;
  std::uint32_t flags = 0;  // kSend...
  WorkOpcode opcode = WorkOpcode::kSend;
  bool inlined = false;  // the payload was copied at post
  std::uint16_t sge_count = 0;
  std::uint32_t srq = 0;  // XRC: number of the shared receive queue
};

class SendQueue {
 public:
  explicit SendQueue(const QpCapabilities& capabilities);

  [[nodiscard]] std::uint64_t head() const { return head_; }
  [[nodiscard]] std::uint64_t next() const { return next_; }
  [[nodiscard]] std::uint64_t tail() const { return tail_; }
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] std::uint64_t room() const { return entries_max_ - (tail_ - head_); }
  [[nodiscard]] bool full() const { return room() == 0; }
  // All posted requests that send a packet have begun.
  [[nodiscard]] bool nothing_behind() const {
    return next_ == tail_ || (is_local((*this)[next_].opcode) && only_local_behind());
  }

  [[nodiscard]] const SendWqe& operator[](std::uint64_t number) const { return wqes_[slot(number)]; }
  [[nodiscard]] std::span<const Sge> sges(std::uint64_t number) const {
    return {&sges_[slot(number) * sge_max_], (*this)[number].sge_count};
  }
  // Precondition: it has one.
  [[nodiscard]] const Sge& first_sge(std::uint64_t number) const { return sges_[slot(number) * sge_max_]; }
  // Null where the queue pair has no room for inline data: an inline request of length 0 is allowed there, too.
  [[nodiscard]] const std::byte* inline_bytes(std::uint64_t number) const {
    return inline_.get() + inline_slot(number) * inline_max_;
  }

  // Precondition: not full(), and the request has been checked. False: its inline data is not mapped; nothing changed.
  [[nodiscard]] bool push(const SendRequest& request, std::uint32_t length) {
    BRDMA_CHECK(!full());
    if (tail_ - head_ == slots_) [[unlikely]]
      grow();
    const std::size_t slot = this->slot(tail_);
    SendWqe& wqe = wqes_[slot];
    wqe.wr_id = request.wr_id;
    wqe.remote_address = request.remote_address;
    wqe.compare_or_add = request.compare_or_add;
    wqe.swap = request.swap;
    wqe.length = length;
    wqe.rkey = request.rkey;
    wqe.immediate_be = request.immediate_be;
    wqe.flags = request.flags;
    wqe.opcode = request.opcode;
    wqe.srq = request.remote_qpn;
    wqe.inlined = (request.flags & kSendInline) != 0;
    wqe.sge_count = static_cast<std::uint16_t>(request.sges.size());
    if (!wqe.inlined && wqe.sge_count == 1) [[likely]] {
      sges_[slot * sge_max_] = request.sges.front();
    } else if (!copy_data(request, slot)) {
      return false;
    }
    ++tail_;
    return true;
  }
  // Prefetches the next slot.
  void fetch_slot() const {
    if (slots_ == 0) return;
    fetch_ahead<sizeof(SendWqe)>(&wqes_[slot(tail_)]);
    fetch_ahead<sizeof(Sge)>(&sges_[slot(tail_) * sge_max_]);
  }
  void begin_next() { ++next_; }
  void pop() { ++head_; }
  void clear() { head_ = next_ = tail_; }
  [[nodiscard]] std::size_t allocated_bytes() const;

 private:
  [[nodiscard]] std::size_t slots_max() const { return std::bit_ceil(std::size_t{entries_max_}); }
  [[nodiscard]] std::size_t slot(std::uint64_t number) const { return number & (slots_ - 1); }
  [[nodiscard]] std::size_t inline_slot(std::uint64_t number) const { return number & (slots_max() - 1); }
  [[nodiscard]] bool only_local_behind() const;
  void grow();
  bool copy_data(const SendRequest& request, std::size_t slot);  // inline data, or the scatter list
  bool copy_inline(const SendRequest& request);

  std::uint32_t entries_max_, sge_max_, inline_max_;
  std::uint32_t slots_ = 0;  // a power of two, or none yet
  std::uint64_t head_ = 0, next_ = 0, tail_ = 0;
  std::unique_ptr<SendWqe[]> wqes_;
  std::unique_ptr<Sge[]> sges_;
  std::unique_ptr<std::byte[]> inline_;
};

}  // namespace brdma::qp
