// qp/send/local_references.h - private: requests whose data the peer, a process of the same host, fetches from memory:
// their packets carry its location (docs/explanation/local.md). Such a message is cut into packets of up to
// kFetchBytesMax, each a message of the table. In the other direction: READ responses with references to our data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/datagram.h"
#include "qp/queues/message_table.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/work_completer.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/state/local_path.h"
#include "wire/local_reference.h"
#include "wire/packet.h"

namespace brdma::qp {

// A view of the requester's parts, made where it is needed.
class LocalReferences {
 public:
  struct Parts {
    Environment& env;
    const Identity& id;
    const SendQueue& queue;
    std::uint32_t& cut;  // bytes of the work request at queue.next() that are in messages already
  };
  explicit LocalReferences(const Parts& parts) : parts_(parts) {}

  // --- new messages ---
  // If the peer can fetch.
  [[nodiscard]] bool is_worth_one(const SendWqe& wqe) const { return is_long(wqe.length) && !wqe.inlined; }
  // Bytes of the WRITE or SEND at queue.next() that the next packet references; 0: its data is sent.
  [[nodiscard]] std::uint32_t next_bytes() const {
    if (parts_.id.local == nullptr) [[likely]]
      return 0;
    return bytes_of_next();
  }
  // The READ at queue.next() asks for references. It may switch between the two from chunk to chunk.
  [[nodiscard]] bool next_read() const {
    if (parts_.id.local == nullptr) [[likely]]
      return false;
    return peer_fetches() && is_long(parts_.queue[parts_.queue.next()].length);
  }
  // `message`, of the work request at queue.next(), becomes a packet that references `bytes`.
  void begin(Message& message, const SendWqe& wqe, std::uint32_t bytes) const;

  // --- what became of them ---
  // The data of a READ response with references is copied. False: the response is not used. If the peer is gone it may
  // come again, until its time runs out.
  bool fetch_response(const wire::Packet& packet, const Message& message, SendFault& fault) const;
  // The peer could not fetch the references of this message. False: the memory is gone.
  [[nodiscard]] bool are_there(const Message& message) const;

 private:
  [[nodiscard]] bool is_long(std::uint32_t bytes) const {
    const TransferConfig& config = parts_.env.config.transfer;
    return config.local && bytes >= std::max(config.local_threshold_bytes, 1u);
  }
  [[nodiscard]] bool peer_fetches() const;
  [[nodiscard]] std::uint32_t bytes_of_next() const;

  Parts parts_;
};

// Memory for one packet's references, which the batch copies.
class ReferenceBuffer {
 public:
  std::span<const Slice> make(std::uint64_t key, std::span<const Slice> data);

 private:
  std::array<std::byte, wire::kReferenceSizeMax> bytes_;
  Slice slice_;
};

}  // namespace brdma::qp
