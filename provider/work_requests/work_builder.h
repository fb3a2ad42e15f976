// work_requests/work_builder.h - a program's requests between ibv_wr_start() and ibv_wr_complete(): requests, their
// scatter lists and copies of their inline data. Nothing reaches the engine before the end, and then all of it or
// nothing.
//
// Order of calls, one thread at a time (start() locks, finish() unlocks):  start  (begin  set_...)*  take  finish
// Errors: the building functions return nothing; the first error is kept, take() returns it, nothing is posted. Memory
// grows to the largest batch, which is no larger than the send queue, and stays.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "bitmaprdma/types.h"

namespace brdma::provider {

class WorkBuilder {
 public:
  // `operations`: enum ibv_qp_create_send_ops_flags, as the program declared them.
  WorkBuilder(const QpCapabilities& capabilities, std::uint64_t operations);
  WorkBuilder(const WorkBuilder&) = delete;
  WorkBuilder& operator=(const WorkBuilder&) = delete;

  void start();
  // A new request, without data so far. Always returns one to fill in; after an error it is discarded.
  SendRequest& begin(std::uint64_t operation, WorkOpcode opcode, std::uint64_t wr_id, unsigned flags);
  // For the request begun last.
  void set_sges(std::span<const Sge> sges);
  void set_inline(std::span<const ibv_data_buf> pieces);
  void set_destination(const AddressHandle& address, std::uint32_t qpn, std::uint32_t qkey);  // UD
  void set_shared_queue(std::uint32_t number);                                                // XRC
  void refuse(int error);                                                                     // keeps the first
  [[nodiscard]] int error() const { return error_; }
  // All of them, complete. Valid until start().
  [[nodiscard]] std::span<const SendRequest> take();
  void finish();

 private:
  [[nodiscard]] bool data_allowed();

  QpCapabilities capabilities_;
  std::uint64_t operations_;
  int error_ = 0;
  bool data_set_ = true;  // the request begun last has its data, or there is none
  std::mutex mutex_;
  std::vector<SendRequest> requests_;
  std::vector<std::uint16_t> sge_counts_;  // of each request
  std::vector<Sge> sges_;                  // of all, one request's after the other's
  std::vector<std::byte> inline_;          // likewise
  SendRequest nowhere_;
};

}  // namespace brdma::provider
