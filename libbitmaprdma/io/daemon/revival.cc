#include "io/daemon/revival.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "control/config.h"
#include "io/daemon/daemon_start.h"
#include "io/daemon/lease_protocol.h"
#include "io/udp/open_socket.h"

namespace brdma::io {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A start takes some 10 ms. A program before us in the order may have died as well.
constexpr milliseconds kTurn{20}, kTurnMax{500};
constexpr milliseconds kLookAgain{20}, kPauseMax{1000};
constexpr std::chrono::seconds kStartWithin{5};
constexpr int kStartsMin = 3;  // a program that was stopped meanwhile also tries before it gives up

// True if a daemon exists, from its first step on, or one that is about to end.
bool somebody_is_there() {
  const FileDescriptor probe{open_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, kDaemonLifeName.data(), kDaemonLifeName.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kDaemonLifeName.size());
  return probe.valid() && ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
}

}  // namespace

int Revival::programs_before() const {
  if (use_ == nullptr) return 0;
  const auto last = std::min<std::size_t>(slot_, use_->rows.size());
  return static_cast<int>(std::count_if(use_->rows.begin(), use_->rows.begin() + static_cast<std::ptrdiff_t>(last),
                                        [](const UseRow& row) { return row.device != 0; }));
}

void Revival::daemon_died() {
  lifeline_.reset();
  const auto now = Clock::now();
  next_ = now + std::min(programs_before() * kTurn, kTurnMax);
  give_up_at_ = now + kGiveUpAfter;
  starts_ = 0;
}

void Revival::daemon_lives(FileDescriptor lifeline) {
  lifeline_ = std::move(lifeline);
  next_.reset();
}

void Revival::act() {
  const auto now = Clock::now();
  if (!next_ || now < *next_) return;
  next_ = now + kLookAgain;
  if (somebody_is_there()) {
    give_up_at_ = now + kGiveUpAfter;
    return;
  }
  const bool tried = !vault_.valid() || starts_ >= kStartsMin;
  if (now >= give_up_at_ && tried) return give_up();
  if (vault_.valid()) start();
}

void Revival::start() {
  ++starts_;
  const auto program = find_daemon(control::load_settings().settings.daemon_path);
  if (program) (void)start_daemon(program.value(), Clock::now() + kStartWithin, vault_.get());
  next_ = Clock::now() + std::min(kLookAgain * starts_, kPauseMax);  // usually its lifeline comes before that
}

void Revival::give_up() {
  next_.reset();
  vault_.reset();
  ::shutdown(control_fd_, SHUT_RDWR);
}

}  // namespace brdma::io
