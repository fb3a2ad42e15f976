#include "cm/demultiplexer.h"

namespace brdma::cm {

Connection* Demultiplexer::of_sender(const Received& from, Connection* connection) {
  if (connection == nullptr) {
    ++counters_.unknown;
    return nullptr;
  }
  if (!(connection->endpoints == from.endpoints)) {
    ++counters_.wrong_address;
    return nullptr;
  }
  return connection;
}

Connection* Demultiplexer::find(const Received& from, CommId ours, CommId theirs, bool begins) {
  Connection* const connection = of_sender(from, table_.find(ours));
  if (connection == nullptr) return nullptr;
  const bool other_peer = connection->remote_id != 0 && theirs != connection->remote_id;
  if (!other_peer && (begins || from.transaction == connection->transaction)) return connection;
  ++counters_.unknown;
  return nullptr;
}

// A peer that gives up before our message came does not know our id, and names only its own. One without such a
// connection names only ours. An established connection ends by a REJ with both, or by an answer to our own message.
Connection* Demultiplexer::rejected(const Received& from, const wire::CmRej& rej) {
  Connection* const connection =
      of_sender(from, rej.remote_comm_id != 0 ? table_.find(rej.remote_comm_id)
                                              : table_.find_remote(from.endpoints.remote, rej.local_comm_id));
  if (connection == nullptr) return nullptr;
  const bool of_peer =
      connection->remote_id == 0 || rej.local_comm_id == 0 || rej.local_comm_id == connection->remote_id;
  const bool enough = rej.remote_comm_id != 0 || connection->state != ConnectionState::kEstablished;
  if (of_peer && enough && from.transaction == connection->transaction) return connection;
  ++counters_.unknown;
  return nullptr;
}

}  // namespace brdma::cm
