// sim/host_output.h - a host's sending side: an engine's batches, cut into packets. A host with a rate sends the next
// batch after the time that the last one took.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/units.h"
#include "device/engine.h"
#include "sim/host_config.h"
#include "sim/packet_pool.h"

namespace brdma::sim {

class HostOutput {
 public:
  // Both outlive this.
  HostOutput(const HostConfig& config, PacketPool& pool);

  // End of the outgoing batch; nothing: the next one may leave.
  [[nodiscard]] std::optional<Instant> busy_until() const { return busy_until_; }
  // True: the outgoing batch has just ended.
  bool finish(Instant now);
  // The packets of the engine's next batch, valid until the next call; they are the caller's. Null: nothing to send.
  // Precondition: not busy.
  [[nodiscard]] const std::vector<PacketIndex>* take_batch(Engine& engine, Instant now);
  void clear() { busy_until_.reset(); }

 private:
  void split(const Transmit& transmit);

  const HostConfig& config_;
  PacketPool& pool_;
  std::unique_ptr<TransmitBuffer> buffer_;
  std::vector<PacketIndex> batch_;
  std::optional<Instant> busy_until_;
};

}  // namespace brdma::sim
