// io/cm/cm_link.h - a process's connection to brdmad for RDMA-CM: questions about ports, and MADs both ways.
//
// Any thread may ask or send; MADs that come meanwhile wait until receive(). When brdmad's worker dies, the next use
// reconnects, with the same id prefix, and lost_ports() reports once that ports must be taken again.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/cm/cm_protocol.h"
#include "io/daemon/daemon_connection.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

class CmLink {
 public:
  // Connects, starting brdmad if nobody answers. Errors as acquire_lease() has them.
  [[nodiscard]] ContextError open();

  [[nodiscard]] std::uint16_t prefix() const { return prefix_; }
  // The answer; `error` ETIMEDOUT or EPIPE where there is none. Blocks for as long as brdmad takes, at most seconds.
  CmFrame ask(CmFrame question);
  void send(const CmFrame& frame);  // may be lost, as on the network
  // Received frames, without waiting.
  [[nodiscard]] std::vector<CmFrame> receive();
  // Messages came during a question, or the connection is a new one: receive() is due although fd() may not be
  // readable.
  [[nodiscard]] bool needs_attention();
  // True once after each new connection but the first.
  [[nodiscard]] bool lost_ports() { return lost_ports_.exchange(false); }
  // Readable when receive() has work. Changes with a new connection: call again after receive().
  [[nodiscard]] int fd();

 private:
  // With mutex_ held:
  ContextError connect(Deadline deadline);
  bool reconnect();
  bool reconnect_if_due();  // nobody waits for it: only from time to time
  bool read_frames();       // available ones; false: the connection has ended
  bool write(const void* bytes, std::size_t size, Deadline deadline);
  // ETIMEDOUT: none until then; EPIPE: the connection has ended.
  Result<CmFrame, Status> await_answer(std::uint32_t number, Deadline deadline);

  std::mutex mutex_;
  FileDescriptor connection_;
  std::string input_;
  std::deque<CmFrame> inbox_;
  std::vector<CmFrame> answers_;
  std::uint16_t prefix_ = 0;
  std::uint32_t next_number_ = 1;
  std::atomic<bool> lost_ports_{false};
  std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace brdma::io
