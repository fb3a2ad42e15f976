// qp/queues/notify_write.h - a WRITE has arrived in full: notifies the watcher of its region (Engine::watch_writes),
// RC or UC.
#pragma once

#include "qp/state/environment.h"
#include "wire/headers.h"

namespace brdma::qp {

// `reth`: of the whole message; `qpn`: ours. All of its bytes are in place. Regions are rarely watched: ask
// env.memory.watched() first.
void notify_write(Environment& env, const wire::Reth& reth, std::uint32_t qpn);

}  // namespace brdma::qp
