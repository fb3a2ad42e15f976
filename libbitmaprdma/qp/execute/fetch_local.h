// qp/execute/fetch_local.h - data of packets by reference (docs/explanation/local.md): from the memory of the peer's
// process to ours. WRITEs and SENDs are executed only in order, so an early packet is held as its reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "qp/execute/verdict.h"
#include "qp/gaps/out_of_order.h"
#include "qp/queues/receive_queue.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/local_reference.h"
#include "wire/packet.h"

namespace brdma::qp {

// nullopt: no valid reference, or none from the peer of this queue pair, or no agreement.
[[nodiscard]] std::optional<wire::LocalReference> admitted(const Identity& identity, ConstBytes payload);
// Precondition: admitted(), and `to` has as many bytes. Counts the fetched bytes.
[[nodiscard]] FetchResult fetch(Environment& environment, const Identity& identity, const wire::LocalReference& from,
                                std::span<const Slice> to);
// After FetchResult::kFault, which does not identify the faulting side: if our memory is mapped, it was the peer's.
[[nodiscard]] bool all_writable(std::span<const Slice> slices);

// Requests by reference. A view of the responder's parts, made where it is needed.
class LocalFetch {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    const OutOfOrderState* out_of_order;
    std::uint32_t mtu;
  };
  explicit LocalFetch(const Parts& parts) : parts_(parts) {}

  // False: the packet is dropped before any effect. Its sender is not the peer, or no peer of ours.
  [[nodiscard]] bool admits(const wire::Packet& packet) const;

  struct Place {
    std::uint32_t rkey = 0;
    std::uint64_t address = 0;    // of the packet's data
    std::byte* memory = nullptr;  // of `address`; null: not known yet
  };
  // The data of a WRITE. kDone: all of it is there, its end last.
  [[nodiscard]] Verdict write(const wire::Packet& packet, const Place& place) const;
  // The data of a SEND, to the oldest receive from byte `offset` on. `own_fault`: that receive is at fault.
  [[nodiscard]] Verdict send(const wire::Packet& packet, const ReceiveQueue& receives, std::uint64_t offset,
                             memory::Fault& own_fault) const;

 private:
  [[nodiscard]] Verdict fetched(const wire::LocalReference& from, std::span<const Slice> to) const;
  [[nodiscard]] Verdict uncovered(Psn psn, const wire::LocalReference& all, std::byte* to) const;

  Parts parts_;
};

}  // namespace brdma::qp
