#include "io/cm/cm_service.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "control/config.h"
#include "io/daemon/refusal.h"
#include "io/shard/clock.h"
#include "io/shard/start_thread.h"
#include "io/system/poll_open.h"
#include "io/system/secret_seed.h"
#include "io/udp/open_socket.h"
#include "io/udp/socket_address.h"

namespace brdma::io {
namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::chrono::milliseconds kLeaveWithin{100};
constexpr int kLookAgainMs = 200;  // while there is no connection to brdmad

CmFrame frame_of(CmFrameKind kind, wire::PortSpace space, const cm::SocketAddress& address) {
  return {.kind = kind, .port = address.port, .space = static_cast<std::uint8_t>(space), .local = address.address};
}

// The address for traffic to this host itself, whose loopback is no device: any device's address leads here too. Not a
// link-local one, which would need an interface.
std::optional<IpAddress> own_address(bool v4) {
  for (const DeviceInfo& device : list_devices()) {
    for (const DeviceInfo::Gid& gid : device.gids) {
      if (gid.address.is_zero() || is_link_local(gid.address)) continue;
      if (gid.address.is_v4() == v4) return gid.address;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<CmService>, ContextError> CmService::start(CmServiceHost& host) {
  std::unique_ptr<CmService> service{new CmService(host)};
  if (ContextError error = service->link_.open(); error.error != 0) return error;
  service->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!service->wake_.valid()) {
    const int error = errno;
    return ContextError{error, refusal("no descriptor can be made", error)};
  }
  const Result<Seed, ContextError> seed = secret_seed();
  if (!seed) return seed.reason();
  service->cm_.emplace(cm::Config{.id_prefix = service->link_.prefix(),
                                  .seed = seed.value(),
                                  .ack_timeout = control::load_settings().settings.rdma_cm_ack_timeout},
                       static_cast<cm::RdmaHost&>(*service));
  service->thread_ = start_thread([raw = service.get()] { raw->run(); });
  if (!service->thread_.joinable()) return ContextError{EAGAIN, refusal("no thread can be made", EAGAIN)};
  return service;
}

CmService::~CmService() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake();
    thread_.join();
  }
  if (!cm_) return;
  cm_->destroy_all(monotonic_now());
  send_all();
}

void CmService::leave() {
  const std::unique_lock lock(mutex_, kLeaveWithin);
  if (!lock.owns_lock()) return;
  cm_->destroy_all(monotonic_now());
  send_all();
}

void CmService::wake() const {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
}

void CmService::run() {
  pthread_setname_np(pthread_self(), "brdma-cm");
  int timeout_ms = -1;
  while (handle(link_.receive(), timeout_ms)) sleep(timeout_ms);
}

// What has come, and what is due. `timeout_ms`: until the next deadline; -1: there is none. False: to stop.
bool CmService::handle(const std::vector<CmFrame>& frames, int& timeout_ms) {
  const std::lock_guard lock(mutex_);
  if (stop_) return false;
  const Instant at = monotonic_now();
  if (link_.lost_ports()) {
    told_ = {};
    cm_->restore_ports();
  }
  for (const CmFrame& frame : frames) cm_->handle_mad({frame.local, frame.remote, frame.scope}, frame.mad, at);
  cm_->handle_timeout(at);
  send_all();
  armed_ = cm_->next_timeout();
  timeout_ms = armed_ ? static_cast<int>((*armed_ - at).ns() / kNsPerMs + 1) : -1;
  return true;
}

void CmService::sleep(int timeout_ms) {
  // Asked meanwhile, perhaps by this thread: brdmad may have died again, or have sent unrequested messages.
  if (link_.needs_attention()) timeout_ms = 0;
  const int connection = link_.fd();
  if (connection < 0 && (timeout_ms < 0 || timeout_ms > kLookAgainMs)) timeout_ms = kLookAgainMs;
  std::array<pollfd, 2> fds{pollfd{wake_.get(), POLLIN, 0}, pollfd{connection, POLLIN, 0}};
  (void)poll_open(fds, timeout_ms);
  std::uint64_t woken = 0;
  if ((fds[0].revents & POLLIN) != 0) static_cast<void>(!::read(wake_.get(), &woken, sizeof woken));
}

// With the lock held, or without other threads.
void CmService::send_all() {
  cm::OutgoingMad out;
  while (cm_->poll_send(out)) {
    CmFrame frame{.kind = CmFrameKind::kMad,
                  .scope = out.endpoints.scope,
                  .local = out.endpoints.local,
                  .remote = out.endpoints.remote};
    frame.mad = out.mad;
    link_.send(frame);
  }
  tell_counters();
}

// So brdmad knows the counters of a killed program too.
void CmService::tell_counters() {
  const cm::Counters counters = cm_->counters();
  if (counters == told_) return;
  CmFrame frame{.kind = CmFrameKind::kCounters};
  std::memcpy(frame.mad.data(), &counters, sizeof counters);
  link_.send(frame);
  told_ = counters;
}

CmService::Session::Session(CmService& service) : service_(service), lock_(service.mutex_), now_(monotonic_now()) {}

CmService::Session::~Session() {
  service_.send_all();
  const auto next = service_.cm_->next_timeout();
  const bool earlier = next && (!service_.armed_ || *next < *service_.armed_);
  if (earlier || service_.link_.needs_attention()) service_.wake();
}

Result<std::uint16_t, Status> CmService::take_port(wire::PortSpace space, const cm::SocketAddress& address,
                                                   const cm::PortOptions& options) {
  CmFrame question = frame_of(CmFrameKind::kTakePort, space, address);
  question.flags =
      static_cast<std::uint8_t>((options.reuse ? kCmReusePort : 0) | (options.ipv6_only ? kCmIpv6Only : 0));
  const CmFrame answer = link_.ask(question);
  if (answer.error != 0) return Status{answer.error};
  return answer.port;
}

Status CmService::listen_port(wire::PortSpace space, const cm::SocketAddress& address) {
  return Status{link_.ask(frame_of(CmFrameKind::kListenPort, space, address)).error};
}

void CmService::release_port(wire::PortSpace space, const cm::SocketAddress& address, bool listening) {
  CmFrame question = frame_of(CmFrameKind::kReleasePort, space, address);
  question.flags = listening ? kCmListening : 0;
  (void)link_.ask(question);
}

// The thread still waits on the old connection.
bool CmService::lost_ports() {
  const bool lost = link_.lost_ports();
  if (lost) {
    told_ = {};
    wake();
  }
  return lost;
}

// A connected datagram socket that sends nothing: the kernel assigns the source address.
Result<IpAddress, Status> CmService::source_for(const cm::SocketAddress& destination) {
  union {
    sockaddr_in6 v6;
    sockaddr_in v4;
  } address{};
  socklen_t size = sizeof address.v6;
  constexpr std::uint16_t kAnyPort = 4791;
  if (destination.address.is_v4()) {
    address.v4.sin_family = AF_INET;
    address.v4.sin_port = htons(kAnyPort);
    address.v4.sin_addr = to_in_addr(destination.address);
    size = sizeof address.v4;
  } else {
    address.v6.sin6_family = AF_INET6;
    address.v6.sin6_port = htons(kAnyPort);
    address.v6.sin6_addr = to_in6_addr(destination.address);
    address.v6.sin6_scope_id = destination.scope;
  }
  const FileDescriptor probe{
      open_socket(destination.address.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!probe.valid()) return Status{errno};
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return Status{errno};
  size = sizeof address;
  if (::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return Status{errno};
  const bool v4 = destination.address.is_v4();
  const IpAddress source = v4 ? from_in_addr(address.v4.sin_addr) : from_in6_addr(address.v6.sin6_addr);
  if (!cm::SocketAddress{source}.is_loopback() || device_of(source, 0)) return source;
  return own_address(v4).value_or(source);
}

}  // namespace brdma::io
