#include "io/cm/cm_link.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "io/daemon/lease.h"
#include "io/daemon/lease_protocol.h"

namespace brdma::io {
namespace {

constexpr std::chrono::seconds kAnswerWithin{10};
constexpr std::chrono::milliseconds kTryAgainAfter{200};
constexpr std::size_t kInboxMax = 4096;  // MADs; further ones are lost as on the network
// A worker may die during the question; the next one answers. A refusal by brdmad is final.
constexpr int kOpenTries = 3;
// The next one may be killed as well. Bounded: the question itself may be what kills them.
constexpr int kAskTries = 8;

Deadline soon() { return std::chrono::steady_clock::now() + kAnswerWithin; }

}  // namespace

ContextError CmLink::open() {
  const std::lock_guard lock(mutex_);
  const Deadline deadline = soon();
  ContextError error;
  for (int attempt = 0; attempt < kOpenTries; ++attempt) {
    error = connect(deadline);
    if (error.error != EPIPE) break;
  }
  return error;
}

int CmLink::fd() {
  const std::lock_guard lock(mutex_);
  return connection_.get();
}

bool CmLink::needs_attention() {
  const std::lock_guard lock(mutex_);
  return lost_ports_ || !inbox_.empty();
}

ContextError CmLink::connect(Deadline deadline) {
  auto connection = connect_or_start_daemon(deadline);
  if (!connection) return connection.reason();
  connection_ = std::move(connection).value();
  input_.clear();
  answers_.clear();  // an earlier connection's message does not answer this hello
  CmHello hello{.prefix = prefix_, .pid = static_cast<std::uint32_t>(::getpid())};
  put_text(hello.program, ::program_invocation_short_name);
  if (!write(&hello, sizeof hello, deadline)) return daemon_left(EPIPE);
  while (answers_.empty()) {
    if (!wait_readable(connection_.get(), deadline)) return daemon_silent();
    if (!read_frames()) return {EPIPE, "brdmad does not serve RDMA-CM to this program"};
  }
  const CmFrame answer = answers_.front();
  answers_.clear();
  if (answer.error != 0) return {answer.error, "brdmad is of another version: end it with 'brdmad --stop'"};
  if (prefix_ != 0 && prefix_ != answer.prefix) return {ESTALE, "another program has this one's connection ids"};
  prefix_ = answer.prefix;
  return {};
}

bool CmLink::reconnect() {
  connection_.reset();
  next_try_ = std::chrono::steady_clock::now() + kTryAgainAfter;
  if (connect(soon()).error != 0) {
    connection_.reset();
    return false;
  }
  lost_ports_ = true;
  return true;
}

bool CmLink::read_frames() {
  for (;;) {
    std::array<char, 16 * sizeof(CmFrame)> buffer;
    const ssize_t got = ::recv(connection_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) return false;
    input_.append(buffer.data(), static_cast<std::size_t>(got));
  }
  std::size_t taken = 0;
  for (CmFrame frame; input_.size() - taken >= sizeof frame; taken += sizeof frame) {
    std::memcpy(static_cast<void*>(&frame), input_.data() + taken, sizeof frame);
    if (frame.kind != CmFrameKind::kMad) {
      answers_.push_back(frame);
    } else if (inbox_.size() < kInboxMax) {
      inbox_.push_back(frame);
    }
  }
  input_.erase(0, taken);
  return true;
}

bool CmLink::write(const void* bytes, std::size_t size, Deadline deadline) {
  return send_all(connection_.get(), bytes, size, deadline).ok();
}

Result<CmFrame, Status> CmLink::await_answer(std::uint32_t number, Deadline deadline) {
  for (;;) {
    const auto answer =
        std::find_if(answers_.begin(), answers_.end(), [&](const CmFrame& frame) { return frame.number == number; });
    if (answer != answers_.end()) return *answer;
    if (!wait_readable(connection_.get(), deadline)) return Status{ETIMEDOUT};
    if (!read_frames()) return Status{EPIPE};
  }
}

CmFrame CmLink::ask(CmFrame question) {
  const std::lock_guard lock(mutex_);
  const Deadline deadline = soon();
  for (int attempt = 0; attempt < kAskTries && milliseconds_left(deadline) > 0; ++attempt) {
    if (!connection_.valid() && !reconnect()) continue;
    question.number = next_number_++;
    answers_.clear();
    if (write(&question, sizeof question, deadline)) {
      const auto answer = await_answer(question.number, deadline);
      if (answer) return answer.value();
      if (answer.reason() == Status{ETIMEDOUT}) {
        question.error = ETIMEDOUT;
        return question;
      }
    }
    connection_.reset();
  }
  question.error = EPIPE;
  return question;
}

bool CmLink::reconnect_if_due() { return std::chrono::steady_clock::now() >= next_try_ && reconnect(); }

void CmLink::send(const CmFrame& frame) {
  const std::lock_guard lock(mutex_);
  if (!connection_.valid() && !reconnect_if_due()) return;
  if (!write(&frame, sizeof frame, soon())) connection_.reset();
}

std::vector<CmFrame> CmLink::receive() {
  const std::lock_guard lock(mutex_);
  if (connection_.valid() && !read_frames()) connection_.reset();
  if (!connection_.valid()) (void)reconnect_if_due();
  std::vector<CmFrame> frames(inbox_.begin(), inbox_.end());
  inbox_.clear();
  return frames;
}

}  // namespace brdma::io
