#include "io/daemon/lease.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/config.h"
#include "control/statistics.h"
#include "io/daemon/daemon_connection.h"
#include "io/daemon/daemon_start.h"
#include "io/daemon/lease_protocol.h"
#include "io/daemon/refusal.h"
#include "io/system/file_descriptor.h"
#include "io/system/pass_descriptors.h"
#include "io/system/sealed_memory.h"
#include "io/udp/open_socket.h"

namespace brdma::io {
namespace {

constexpr int kStartsMax = 500;  // a start takes milliseconds: more means a daemon that ends as soon as it is ready

// The sockets of this process's leases. A socket whose daemon is gone still holds port 4791, which would keep the next
// daemon from starting; so acquire_lease() replaces it.
struct LeaseList {
  std::mutex mutex;
  struct Entry {
    int socket_fd = -1;
    int control_fd = -1;
  };
  std::vector<Entry> entries;
};

LeaseList& leases() {
  static auto* list = new LeaseList;  // never destroyed: leases may be given back by static destructors
  return *list;
}

bool peer_open(int control_fd) {
  pollfd end{control_fd, POLLRDHUP, 0};  // io/management/control_thread.h reads its data
  while (::poll(&end, 1, 0) < 0 && errno == EINTR) {
  }
  return end.revents == 0;
}

// Replaces the socket behind `fd` by one that receives nothing, atomically: another thread may be using the number.
void replace_by_silent_socket(int fd) {
  const FileDescriptor silent{open_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  ::shutdown(fd, SHUT_RDWR);  // returns ENOTCONN, but wakes threads that wait on the old socket
  if (silent.valid()) ::dup3(silent.get(), fd, O_CLOEXEC);
}

void abandon_orphans() {
  LeaseList& list = leases();
  const std::lock_guard lock(list.mutex);
  for (const auto& entry : list.entries) {
    if (!peer_open(entry.control_fd)) replace_by_silent_socket(entry.socket_fd);
  }
}

void remember(int socket_fd, int control_fd) {
  LeaseList& list = leases();
  const std::lock_guard lock(list.mutex);
  list.entries.push_back({socket_fd, control_fd});
}

void forget_and_close(int socket_fd, int control_fd) {
  LeaseList& list = leases();
  const std::lock_guard lock(list.mutex);
  std::erase_if(list.entries, [socket_fd](const auto& entry) { return entry.socket_fd == socket_fd; });
  ::close(socket_fd);
  ::close(control_fd);  // last: from here on brdmad may drain the socket and lease it again
}

struct Answer {
  LeaseReply reply;
  FileDescriptor socket, statistics, device_use, lifeline, vault;
};

// Reads one LeaseReply and its descriptors. ECONNRESET: the daemon went away before it answered.
Result<Answer, ContextError> read_answer(int fd, Deadline deadline) {
  Answer answer;
  std::size_t have = 0;
  auto* bytes = reinterpret_cast<std::byte*>(&answer.reply);
  while (have < sizeof answer.reply) {
    if (!wait_readable(fd, deadline)) return daemon_silent();
    std::array<FileDescriptor, kLeaseDescriptors> came;
    const ssize_t got = receive_with_descriptors(fd, {bytes + have, sizeof answer.reply - have}, came);
    if (got < 0 && (errno == EMFILE || errno == EACCES)) {
      const int error = errno;
      return ContextError{error, refusal("the descriptors that brdmad hands over cannot be taken", error)};
    }
    if (got <= 0) return daemon_left(ECONNRESET);
    if (came[0].valid()) {
      answer.socket = std::move(came[0]);
      answer.statistics = std::move(came[1]);
      answer.device_use = std::move(came[2]);
      answer.lifeline = std::move(came[3]);
      answer.vault = std::move(came[4]);
    }
    have += static_cast<std::size_t>(got);
    if (answer.reply.magic != kLeaseMagic) return daemon_foreign("another answer");
  }
  return answer;
}

LeaseRequest make_request(const DeviceInfo& device) {
  LeaseRequest request;
  request.pid = static_cast<std::uint32_t>(::getpid());
  request.statistics_layout = control::statistics_layout();
  put_text(request.program, ::program_invocation_short_name);
  put_text(request.device, device.name);
  return request;
}

bool is_lease_socket(int fd, bool dual_stack) {
  const auto option = [fd](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  };
  const int flags = ::fcntl(fd, F_GETFL);
  return option(SO_DOMAIN) == (dual_stack ? AF_INET6 : AF_INET) && option(SO_PROTOCOL) == IPPROTO_UDP && flags >= 0 &&
         (flags & O_NONBLOCK) != 0;
}

// Checks an answer of any process that calls itself brdmad: no input may end the program. Null, or its fault.
const char* wrong_with(const Answer& answer) {
  const LeaseReply& reply = answer.reply;
  if (reply.slot_bits != kSlotBits || !is_leasable(reply.slot)) return "a slot out of range";
  if (!is_lease_socket(answer.socket.get(), reply.dual_stack != 0)) return "a socket of another kind";
  if (!is_sealed_memory(answer.statistics.get(), sizeof(StatisticsPage)) ||
      !is_sealed_memory(answer.device_use.get(), sizeof(UseTable)))
    return "memory that it could take away";
  return nullptr;
}

ContextError does_not_stay() {
  return {ETIMEDOUT, "brdmad was started but does not stay: run it with --foreground to see why"};
}

// Worth another try: no listener, or the daemon was about to end.
bool daemon_gone(int error) { return error == ECONNREFUSED || error == ECONNRESET || error == EPIPE; }

Result<Answer, ContextError> ask_once(const DeviceInfo& device, FileDescriptor& connection, Deadline deadline) {
  auto connected = connect_or_start_daemon(deadline);
  if (!connected) return connected.reason();
  connection = std::move(connected).value();
  const LeaseRequest request = make_request(device);
  if (const Status sent = send_all(connection.get(), &request, sizeof request, deadline); !sent.ok()) {
    return daemon_left(sent.error());
  }
  auto answer = read_answer(connection.get(), deadline);
  if (!answer) return answer.reason();
  const LeaseReply& reply = answer.value().reply;
  if (reply.error != 0) return ContextError{reply.error, std::string(get_text(reply.message))};
  if (reply.version != kLeaseVersion || !answer.value().socket.valid() || !answer.value().statistics.valid() ||
      !answer.value().device_use.valid()) {
    return ContextError{EPROTO, "brdmad speaks lease protocol " + std::to_string(reply.version) +
                                    ", this program's library " + std::to_string(kLeaseVersion) +
                                    ": end it with 'brdmad --stop' once the programs that use it are done"};
  }
  if (const char* const wrong = wrong_with(answer.value()); wrong != nullptr) return daemon_foreign(wrong);
  return answer;
}

// Asks again if the daemon was about to end.
Result<Answer, ContextError> ask(const DeviceInfo& device, FileDescriptor& connection) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLeaseTimeoutMs);
  for (int attempts = 0;; ++attempts) {
    auto answer = ask_once(device, connection, deadline);
    if (answer || !daemon_gone(answer.reason().error)) return answer;
    if (attempts == kStartsMax || milliseconds_left(deadline) == 0) return does_not_stay();
  }
}

// Nothing: the connection has ended, or what came is no reply.
Result<std::optional<SlotReply>, ContextError> ask_for_slot(int fd, const SlotRequest& request, Deadline deadline) {
  if (!send_all(fd, &request, sizeof request, deadline).ok()) return std::optional<SlotReply>{};
  if (!wait_readable(fd, deadline)) return daemon_silent();
  SlotReply reply;
  const ssize_t got = ::recv(fd, &reply, sizeof reply, MSG_WAITALL);
  if (got != static_cast<ssize_t>(sizeof reply) || reply.magic != kSlotMagic) return std::optional<SlotReply>{};
  return std::optional{reply};
}

// `own`: the slot that the lease began with.
Result<std::uint32_t, ContextError> slot_of(const SlotReply& reply, std::uint32_t own) {
  if (reply.error != 0) return ContextError{reply.error, std::string(get_text(reply.message))};
  if (!is_leasable(reply.slot) || reply.slot == own) return daemon_foreign("a slot out of range");
  return reply.slot;
}

}  // namespace

Result<FileDescriptor, ContextError> connect_or_start_daemon(Deadline deadline) {
  for (int starts = 0;; ++starts) {
    auto connection = connect_to_daemon(deadline);
    if (connection) {
      if (ContextError refused = check_owner(connection.value().get()); refused.error != 0) return refused;
      return connection;
    }
    if (!daemon_gone(connection.reason().error)) return connection.reason();
    if (starts == kStartsMax || milliseconds_left(deadline) == 0) return does_not_stay();
    const auto program = find_daemon(control::load_settings().settings.daemon_path);
    if (!program) return program.reason();
    abandon_orphans();
    if (ContextError failed = start_daemon(program.value(), deadline); failed.error != 0) return failed;
  }
}

Result<Lease, ContextError> acquire_lease(const DeviceInfo& device) {
  FileDescriptor connection;
  auto asked = ask(device, connection);
  if (!asked) return asked.reason();
  Answer& answer = asked.value();
  const auto map = [](const FileDescriptor& fd, std::size_t bytes) {
    void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    return memory == MAP_FAILED ? nullptr : memory;
  };
  Lease lease;
  void* const page = lease.mapping_ = map(answer.statistics, sizeof(StatisticsPage));
  if (page != nullptr) lease.device_use = static_cast<UseTable*>(map(answer.device_use, sizeof(UseTable)));
  if (lease.device_use == nullptr) {
    const int error = errno;
    return ContextError{error, refusal("what brdmad shares cannot be mapped", error)};
  }
  lease.statistics = &static_cast<StatisticsPage*>(page)->statistics;
  lease.events = &static_cast<StatisticsPage*>(page)->events;
  lease.gauges = &static_cast<StatisticsPage*>(page)->gauges;
  lease.dual_stack = answer.reply.dual_stack != 0;
  lease.slot = answer.reply.slot;
  lease.slot_bits = answer.reply.slot_bits;
  lease.id = answer.reply.lease_id;
  lease.settings = get_text(answer.reply.settings);
  lease.socket_fd = answer.socket.release();
  lease.control_fd = connection.release();
  lease.lifeline_fd = answer.lifeline.release();
  lease.vault_fd = answer.vault.release();
  remember(lease.socket_fd, lease.control_fd);
  return lease;
}

Result<std::uint32_t, ContextError> request_slot(const Lease& lease, std::uint32_t slots) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLeaseTimeoutMs);
  SlotRequest request;
  request.lease_id = lease.id;
  request.slot = lease.slot;
  request.slots = slots;
  for (;;) {
    auto connected = connect_or_start_daemon(deadline);
    if (!connected) return connected.reason();
    const auto asked = ask_for_slot(connected.value().get(), request, deadline);
    if (!asked) return asked.reason();
    if (const auto& reply = asked.value()) return slot_of(*reply, lease.slot);
    if (milliseconds_left(deadline) == 0) return daemon_silent();
    ::poll(nullptr, 0, 1);  // its worker has died, or it has: the next one answers
  }
}

Lease::~Lease() {
  for (const int fd : {lifeline_fd, vault_fd}) {
    if (fd >= 0) ::close(fd);
  }
  if (socket_fd >= 0) forget_and_close(socket_fd, control_fd);
  if (mapping_ != nullptr) ::munmap(mapping_, sizeof(StatisticsPage));
  if (device_use != nullptr) ::munmap(device_use, sizeof(UseTable));
}

Lease::Lease(Lease&& other) noexcept { *this = std::move(other); }

Lease& Lease::operator=(Lease&& other) noexcept {
  std::swap(socket_fd, other.socket_fd);
  std::swap(dual_stack, other.dual_stack);
  std::swap(slot, other.slot);
  std::swap(slot_bits, other.slot_bits);
  std::swap(id, other.id);
  std::swap(statistics, other.statistics);
  std::swap(control_fd, other.control_fd);
  std::swap(lifeline_fd, other.lifeline_fd);
  std::swap(vault_fd, other.vault_fd);
  std::swap(events, other.events);
  std::swap(gauges, other.gauges);
  std::swap(device_use, other.device_use);
  std::swap(settings, other.settings);
  std::swap(mapping_, other.mapping_);
  return *this;
}

Revival Lease::take_revival() {
  return {FileDescriptor{std::exchange(lifeline_fd, -1)}, FileDescriptor{std::exchange(vault_fd, -1)}, control_fd,
          device_use, slot};
}

bool Lease::alive() const { return control_fd >= 0 && peer_open(control_fd); }

void Lease::abandon() {
  const std::lock_guard lock(leases().mutex);
  if (socket_fd >= 0) replace_by_silent_socket(socket_fd);
}

}  // namespace brdma::io
