#include "supervisor/inheritance.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "io/daemon/lease_protocol.h"
#include "io/system/sealed_memory.h"
#include "lease/statistics_page.h"

namespace brdma::daemon {
namespace {

// Further programs wait to connect. Short, so that one user's connections delay another's only by milliseconds.
constexpr int kBacklog = 512;

// A socket at an abstract name. On failure the message names the failed call.
Result<io::FileDescriptor, ContextError> bind_name(std::string_view name, int type) {
  io::FileDescriptor fd{::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno == EADDRINUSE) return ContextError{EADDRINUSE, {}};
    return ContextError{errno, "cannot take the name @" + std::string(name) + ": " + std::strerror(errno)};
  }
  return fd;
}

Result<io::FileDescriptor, ContextError> listen_at_name() {
  auto listener = bind_name(io::kDaemonName, SOCK_STREAM);
  if (listener && ::listen(listener.value().get(), kBacklog) != 0)
    return ContextError{errno, std::string("cannot listen at @brdmad: ") + std::strerror(errno)};
  return listener;
}

template <class T>
T* map(int fd) {
  void* const memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<T*>(memory);
}

ContextError cannot_set_up() { return {EIO, std::string("cannot set up: ") + std::strerror(errno)}; }

StateHeader header_of(const Options& options, bool dual_stack) {
  StateHeader header;
  header.bytes = sizeof(SharedState);
  io::put_text(header.version, BRDMA_VERSION);
  header.dual_stack = dual_stack ? 1 : 0;
  header.idle_seconds = options.idle_seconds;
  return header;
}

// 0, or the errno value why this process may not adopt the state. Users are compared as the kernel does, across user
// namespaces.
int refuse_state(int memory, const SharedState& state) {
  struct stat status {};
  if (::fstat(memory, &status) != 0 || status.st_uid != ::geteuid()) return EPERM;
  const StateHeader& header = state.header;
  if (header.magic != StateHeader::kMagic || header.bytes != sizeof(SharedState) ||
      io::get_text(header.version) != BRDMA_VERSION || state.device_count > kDevicesMax ||
      state.settings_count > kDevicesMax || state.slots_end > io::kSlotCount || state.folding.slot >= io::kSlotCount ||
      state.folding.device >= kDevicesMax)
    return EPROTO;
  return 0;
}

ContextError cannot_adopt(int error) {
  const char* const why = error == EPERM    ? "it belonged to another user"
                          : error == EPROTO ? "it was of another version"
                                            : std::strerror(error);
  return {error, std::string("cannot take over what the brdmad before left: ") + why};
}

void keep_leases(std::vector<Vault::Found::Lease>& leases, const SharedState& state, std::size_t sockets,
                 KeptLeases& kept) {
  for (Vault::Found::Lease& lease : leases) {
    if (lease.slot >= kept.size()) continue;
    const SlotRecord& record = state.slots[lease.slot];
    if (!has_lease(record) || record.lease_id != lease.id || lease.slot >= sockets) continue;  // it has ended
    kept[lease.slot] = {std::move(lease.connection), std::move(lease.statistics)};
  }
}

// Takes the descriptor only on success.
Result<Inheritance, ContextError> adopt(int vault_fd, Options& options) {
  if (ContextError error = raise_file_limit(); error.error != 0) return error;
  auto looked = Vault::look(vault_fd);
  if (!looked) return looked.reason();
  Vault::Found& found = looked.value();
  if (!io::is_sealed_memory(found.state.get(), sizeof(SharedState)) ||
      !io::is_sealed_memory(found.connections.get(), sizeof(ConnectionTable)))
    return cannot_adopt(EPROTO);
  Inheritance adopted;
  adopted.state_memory = std::move(found.state);
  adopted.state = map<SharedState>(adopted.state_memory.get());
  adopted.connections_memory = std::move(found.connections);
  adopted.connections = map<ConnectionTable>(adopted.connections_memory.get());
  if (adopted.state == nullptr || adopted.connections == nullptr) return cannot_set_up();
  if (const int error = refuse_state(adopted.state_memory.get(), *adopted.state); error != 0)
    return cannot_adopt(error);
  if (found.sockets.size() < kSlotsAtFirst || found.sockets.size() > io::kSlotCount) return cannot_adopt(EPROTO);
  adopted.listener = std::move(found.listener);
  adopted.group.sockets = std::move(found.sockets);
  adopted.group.dual_stack = adopted.state->header.dual_stack != 0;
  std::uint32_t& idle_seconds = adopted.state->header.idle_seconds;
  if (options.ready_fd >= 0) {
    options.idle_seconds = idle_seconds;  // as the starter of the first daemon set it
  } else {
    idle_seconds = options.idle_seconds;
  }
  adopted.kept.tables = std::move(found.tables);
  adopted.kept.steerings = std::move(found.steerings);
  keep_leases(found.leases, *adopted.state, adopted.group.sockets.size(), adopted.kept.leases);
  adopted.vault = Vault::adopt(io::FileDescriptor{vault_fd}, std::move(found.sending_end));
  return adopted;
}

}  // namespace

Result<io::FileDescriptor, ContextError> be_the_only_one() { return bind_name(io::kDaemonLifeName, SOCK_DGRAM); }

Result<Inheritance, ContextError> make_inheritance(const Options& options) {
  Inheritance made;
  auto listener = listen_at_name();
  if (!listener) return listener.reason();
  made.listener = std::move(listener).value();
  auto group = open_socket_group();
  if (!group) return group.reason();  // programs that wait at the listener get the reason from a brdmad of their own
  made.group = std::move(group).value();
  made.state_memory = make_shared_memory("brdma-state", sizeof(SharedState));
  made.connections_memory = make_shared_memory("brdma-connections", sizeof(ConnectionTable));
  if (!made.state_memory.valid() || !made.connections_memory.valid()) return cannot_set_up();
  made.state = map<SharedState>(made.state_memory.get());
  made.connections = map<ConnectionTable>(made.connections_memory.get());  // zeroes: no entries
  if (made.state == nullptr || made.connections == nullptr) return cannot_set_up();
  made.state->header =
      header_of(options, made.group.dual_stack);  // the rest begins as zeroes: no page for unused slots
  made.vault = Vault::create();
  if (!made.vault.valid()) return cannot_set_up();
  return made;
}

Result<Inheritance, ContextError> adopt_inheritance(io::FileDescriptor vault_fd, Options& options, bool or_nobody) {
  auto adopted = adopt(vault_fd.get(), options);
  if (adopted) {
    static_cast<void>(vault_fd.release());
  } else if (or_nobody) {
    Vault::adopt(std::move(vault_fd), {}).clear();
  }
  return adopted;
}

}  // namespace brdma::daemon
