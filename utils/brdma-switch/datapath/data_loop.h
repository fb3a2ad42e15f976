// brdma-switch/datapath/data_loop.h - moves frames between ports and the core (core.h), in time. One thread runs it;
// others use call(). Blocks when idle: until a frame comes, a packet is due, or another thread calls.
#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/units.h"
#include "datapath/packet_port.h"
#include "datapath/transmit_batch.h"
#include "fabric/packet_pool.h"
#include "forwarding/core.h"
#include "forwarding/switch_packet.h"
#include "io/system/file_descriptor.h"

namespace brdma::lab {

struct PortSpec {
  std::string host;       // "h1"
  std::string interface;  // the near end of its veth pair
};

// Losses of the switch itself: not configured, but a sign that this machine is too slow for the network.
struct PortTrouble {
  std::uint64_t overruns = 0;   // a receive ring was full
  std::uint64_t no_buffer = 0;  // the pool was empty
  std::uint64_t malformed = 0;  // truncated, or a batch that is not UDP
  std::uint64_t refused = 0;    // by the kernel, on the way out
};

class DataLoop {
 public:
  using MakeCore = std::function<std::unique_ptr<Core>(fabric::PacketPool&)>;
  // Opens the ports. Throws as PacketPort does.
  DataLoop(const std::vector<PortSpec>& ports, const MakeCore& make_core);

  [[nodiscard]] bool passes_batches() const { return passes_batches_; }
  void run();  // until stop()

  // From any thread: runs `work` in the loop's thread and returns when it is done. False: the loop has ended.
  bool call(const std::function<void()>& work);
  void stop();

  // In the loop's thread only.
  [[nodiscard]] Core& core() { return *core_; }
  [[nodiscard]] const std::vector<PortSpec>& specs() const { return specs_; }
  [[nodiscard]] const PortTrouble& trouble(std::size_t port);

 private:
  struct Port {
    std::unique_ptr<PacketPort> socket;
    std::unique_ptr<TransmitBatch> batch;
    PortTrouble trouble;
  };

  bool receive_frames(std::uint32_t port, Duration real_time_ahead);
  void take_frame(std::uint32_t port, const ReceivedFrame& frame, Instant now);
  void take_datagrams(std::uint32_t port, const ReceivedFrame& frame, const fabric::FrameInfo& info, Instant now);
  bool transmit(Instant now);
  void wait();
  void serve_calls();

  std::vector<PortSpec> specs_;
  bool passes_batches_;
  fabric::PacketPool pool_;
  std::unique_ptr<Core> core_;
  std::vector<Port> ports_;
  std::vector<pollfd> polled_;  // the ports, then wake_

  struct Call;
  io::FileDescriptor wake_;
  std::mutex mutex_;  // guards the two below
  std::vector<Call*> calls_;
  bool stopped_ = false;
};

}  // namespace brdma::lab
