#include "supervisor/vault.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "io/system/pass_descriptors.h"

namespace brdma::daemon {
namespace {

constexpr std::uint32_t kMagic = 0x56445242;  // "BRDV" in memory
constexpr std::size_t kSocketsPerMessage = io::kPassedDescriptorsMax;
constexpr std::size_t kLeasesPerMessage = io::kPassedDescriptorsMax / 2;
constexpr std::size_t kAddedMax = 64;         // then a new generation: ended leases must not pile up
constexpr int kQueueBytes = 4 << 20;          // the kernel cuts it to net.core.wmem_max
constexpr std::size_t kSocketsMax = 1 << 16;  // far above a group's size

enum class Kind : std::uint32_t { kBasis = 1, kSockets, kLeases, kComplete, kGuard, kTables, kSteering };

struct VaultHeader {
  std::uint32_t magic = kMagic;
  Kind kind{};
  std::uint64_t generation = 0;
  std::uint32_t first = 0;  // kSockets: slot of the first one; kSteering: the interface
  std::uint32_t count = 0;  // entries
};

struct Entry {
  std::uint64_t number = 0, id = 0;  // slot and number of a lease; user of a table
};

struct Message {
  VaultHeader header;
  std::array<Entry, kLeasesPerMessage> entries{};

  [[nodiscard]] std::size_t bytes() const {
    const bool has_entries = header.kind == Kind::kLeases || header.kind == Kind::kTables;
    return sizeof header + (has_entries ? header.count * sizeof(Entry) : 0);
  }
};

bool put(int fd, const Message& message, std::span<const int> descriptors) {
  const ConstBytes bytes{reinterpret_cast<const std::byte*>(&message), message.bytes()};
  return io::send_with_descriptors(fd, bytes, descriptors, MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

// -1: peeking always shows the first message; else the next one each time, from there on.
bool set_peek_offset(int fd, int offset) {
  return ::setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof offset) == 0;
}

// The newest generation that has a message.
std::uint64_t newest_in(int fd) {
  Message message;  // whole ones: the offset counts the bytes that were read
  std::uint64_t newest = 0;
  set_peek_offset(fd, 0);
  while (::recv(fd, &message, sizeof message, MSG_PEEK | MSG_DONTWAIT) >= static_cast<ssize_t>(sizeof message.header))
    newest = std::max(newest, message.header.generation);
  set_peek_offset(fd, -1);
  return newest;
}

// Number of descriptors that a message of that kind carries; -1: not one of ours.
std::ptrdiff_t descriptors_of(const VaultHeader& header) {
  switch (header.kind) {
    case Kind::kBasis:
    case Kind::kSteering:
      return 4;
    case Kind::kSockets:
    case Kind::kGuard:
      return header.count <= kSocketsPerMessage ? static_cast<std::ptrdiff_t>(header.count) : -1;
    case Kind::kLeases:
      return header.count <= kLeasesPerMessage ? static_cast<std::ptrdiff_t>(header.count) * 2 : -1;
    case Kind::kTables:
      return header.count <= kLeasesPerMessage ? static_cast<std::ptrdiff_t>(header.count) : -1;
    case Kind::kComplete:
      return 0;
  }
  return -1;
}

using Descriptors = std::vector<io::FileDescriptor>;

// The next message of the log. False: the end, or a foreign message; then errno is not 0.
bool peek(int fd, Message& message, Descriptors& came) {
  came.clear();
  came.resize(io::kPassedDescriptorsMax);
  errno = 0;
  const ssize_t got = io::receive_with_descriptors(fd, {reinterpret_cast<std::byte*>(&message), sizeof message}, came,
                                                   MSG_PEEK | MSG_DONTWAIT);
  if (got <= 0) {
    if (errno == EAGAIN) errno = 0;
    return false;
  }
  const std::ptrdiff_t expected = got >= static_cast<ssize_t>(sizeof message.header) && message.header.magic == kMagic
                                      ? descriptors_of(message.header)
                                      : -1;
  const auto valid = std::ranges::count_if(came, [](const io::FileDescriptor& each) { return each.valid(); });
  if (expected < 0 || static_cast<std::size_t>(got) != message.bytes()) {
    errno = EPROTO;
    return false;
  }
  if (valid != expected) {
    errno = EMFILE;  // there was no room for them in this process
    return false;
  }
  return true;
}

bool take(const Message& message, Descriptors& came, Vault::Found& found) {
  const VaultHeader& header = message.header;
  switch (header.kind) {
    case Kind::kBasis:
      found = {};
      found.listener = std::move(came[0]);
      found.state = std::move(came[1]);
      found.connections = std::move(came[2]);
      found.sending_end = std::move(came[3]);
      return true;
    case Kind::kSockets:
      if (header.first != found.sockets.size() || header.first + header.count > kSocketsMax) return false;
      for (std::size_t i = 0; i < header.count; ++i) found.sockets.push_back(std::move(came[i]));
      return true;
    case Kind::kGuard:
      for (std::size_t i = 0; i < header.count; ++i) found.guard.push_back(std::move(came[i]));
      return true;
    case Kind::kLeases:
      for (std::size_t i = 0; i < header.count; ++i) {
        found.leases.push_back({static_cast<std::uint32_t>(message.entries[i].number), message.entries[i].id,
                                std::move(came[2 * i]), std::move(came[2 * i + 1])});
      }
      return true;
    case Kind::kSteering:
      found.steerings.insert_or_assign(
          header.first, XdpSteering{std::move(came[0]), std::move(came[1]), std::move(came[2]), std::move(came[3])});
      return true;
    case Kind::kTables:
      for (std::size_t i = 0; i < header.count; ++i)
        found.tables.insert_or_assign(static_cast<std::uint32_t>(message.entries[i].number), std::move(came[i]));
      return true;
    case Kind::kComplete:
      return true;
  }
  return false;
}

// Kinds of entries that may come after kComplete.
bool may_be_added(Kind kind) { return kind == Kind::kLeases || kind == Kind::kTables || kind == Kind::kSteering; }

// The log as far as it was read: its last complete generation, and the one that follows.
struct Generations {
  Vault::Found complete, growing;
  std::uint64_t complete_number = 0, growing_number = 0;

  // The next message. False: not one that may stand here.
  bool take_next(const Message& message, Descriptors& came) {
    const auto [magic, kind, number, first, count] = message.header;
    const bool adds = may_be_added(kind) && number == complete_number;
    if (kind == Kind::kBasis) growing_number = number;
    if (!adds && number != growing_number) return true;  // remains of an older one
    if (!take(message, came, adds ? complete : growing)) return false;
    if (kind != Kind::kComplete) return true;
    complete = std::exchange(growing, {});
    complete_number = std::exchange(growing_number, 0);
    return true;
  }
};

}  // namespace

Vault Vault::create() {
  std::array<int, 2> ends{};
  Vault vault;
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return vault;
  vault.receiving_end_.reset(ends[0]);
  vault.sending_end_.reset(ends[1]);
  if (::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUFFORCE, &kQueueBytes, sizeof kQueueBytes) != 0) {
    ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &kQueueBytes, sizeof kQueueBytes);
  }
  return vault;
}

Vault Vault::adopt(io::FileDescriptor fd, io::FileDescriptor sending_end) {
  Vault vault;
  vault.receiving_end_ = std::move(fd);
  vault.sending_end_ = std::move(sending_end);
  return vault;
}

Result<Vault::Found, ContextError> Vault::look(int fd) {
  const auto failed = [](int error) {
    return ContextError{error, std::string("cannot take over what the brdmad before left: ") + std::strerror(error)};
  };
  if (!set_peek_offset(fd, 0)) return failed(errno);
  Generations log;
  Message message;
  Descriptors came;
  while (peek(fd, message, came)) {
    if (log.take_next(message, came)) continue;
    errno = EPROTO;
    break;
  }
  const int error = errno;
  set_peek_offset(fd, -1);
  if (error != 0) return failed(error);
  if (log.complete_number == 0) return failed(ESTALE);
  return std::move(log.complete);
}

bool Vault::send_leases(std::span<const VaultLease> leases) {
  Message message;
  message.header.kind = Kind::kLeases;
  message.header.generation = generation_;
  message.header.count = static_cast<std::uint32_t>(leases.size());
  std::vector<int> descriptors;
  for (std::size_t i = 0; i < leases.size(); ++i) {
    message.entries[i] = {leases[i].slot, leases[i].id};
    descriptors.push_back(leases[i].connection);
    descriptors.push_back(leases[i].statistics);
  }
  return put(sending_end_.get(), message, descriptors);
}

bool Vault::send_tables(std::span<const VaultTable> tables) {
  Message message;
  message.header.kind = Kind::kTables;
  message.header.generation = generation_;
  message.header.count = static_cast<std::uint32_t>(tables.size());
  std::vector<int> descriptors;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    message.entries[i].number = tables[i].uid;
    descriptors.push_back(tables[i].memory);
  }
  return put(sending_end_.get(), message, descriptors);
}

bool Vault::send_steering(std::uint32_t ifindex, const XdpSteering& steering) {
  Message message;
  message.header = {.kind = Kind::kSteering, .generation = generation_, .first = ifindex};
  const std::array parts{steering.link.get(), steering.slots.get(), steering.lessees.get(), steering.sockets.get()};
  return put(sending_end_.get(), message, parts);
}

bool Vault::send_steerings(const KeptSteerings* steerings) {
  if (steerings == nullptr) return true;
  for (const auto& [ifindex, steering] : *steerings) {
    if (!send_steering(ifindex, steering)) return false;
  }
  return true;
}

bool Vault::send_basis(const VaultBasis& basis) {
  Message message;
  message.header = {.kind = Kind::kBasis, .generation = generation_};
  const std::array descriptors{basis.listener, basis.state, basis.connections, sending_end_.get()};
  return put(sending_end_.get(), message, descriptors);
}

bool Vault::send_sockets(const std::vector<io::FileDescriptor>& sockets) {
  Message message;
  message.header = {.kind = Kind::kSockets, .generation = generation_};
  for (std::size_t first = 0; first < sockets.size(); first += kSocketsPerMessage) {
    std::vector<int> run;
    for (std::size_t i = first; i < std::min(first + kSocketsPerMessage, sockets.size()); ++i)
      run.push_back(sockets[i].get());
    message.header.first = static_cast<std::uint32_t>(first);
    message.header.count = static_cast<std::uint32_t>(run.size());
    if (!put(sending_end_.get(), message, run)) return false;
  }
  return true;
}

bool Vault::send_guard(const std::vector<io::FileDescriptor>* guard) {
  if (guard == nullptr || guard->empty()) return true;
  Message message;
  std::vector<int> links;
  for (const io::FileDescriptor& link : *guard) links.push_back(link.get());
  message.header = {.kind = Kind::kGuard, .generation = generation_, .count = static_cast<std::uint32_t>(links.size())};
  return put(sending_end_.get(), message, links);
}

bool Vault::write_generation(const VaultBasis& basis, std::span<const VaultTable> tables,
                             std::span<const VaultLease> leases) {
  ++generation_;
  if (!send_basis(basis) || !send_sockets(*basis.sockets)) return false;
  if (!send_guard(basis.guard) || !send_steerings(basis.steerings)) return false;
  for (std::size_t first = 0; first < tables.size(); first += kLeasesPerMessage) {
    if (!send_tables(tables.subspan(first, std::min(kLeasesPerMessage, tables.size() - first)))) return false;
  }
  for (std::size_t first = 0; first < leases.size(); first += kLeasesPerMessage) {
    if (!send_leases(leases.subspan(first, std::min(kLeasesPerMessage, leases.size() - first)))) return false;
  }
  Message message;
  message.header = {.kind = Kind::kComplete, .generation = generation_};
  return put(sending_end_.get(), message, {});
}

ContextError Vault::rewrite(const VaultBasis& basis, std::span<const VaultTable> tables,
                            std::span<const VaultLease> leases) {
  if (!valid()) return {EBADF, "there is no vault"};
  generation_ = std::max(generation_, newest_in(receiving_end_.get()));  // a previous worker may have written it
  if (!write_generation(basis, tables, leases)) {
    clear();  // both generations together may have been too much
    if (!write_generation(basis, tables, leases)) {
      const int error = errno;
      clear();
      return {error, std::strerror(error)};
    }
  }
  take_out_before(generation_);
  added_ = 0;
  return {};
}

void Vault::take_out_before(std::uint64_t generation) {
  VaultHeader header;
  while (::recv(receiving_end_.get(), &header, sizeof header, MSG_PEEK | MSG_DONTWAIT) > 0 &&
         header.generation != generation) {
    static_cast<void>(!::recv(receiving_end_.get(), &header, sizeof header, MSG_DONTWAIT));  // closes its descriptors
  }
}

bool Vault::add(const VaultLease& lease) {
  if (added_ >= kAddedMax || !send_leases({&lease, 1})) return false;
  ++added_;
  return true;
}

bool Vault::add(const VaultTable& table) {
  if (added_ >= kAddedMax || !send_tables({&table, 1})) return false;
  ++added_;
  return true;
}

bool Vault::add(std::uint32_t ifindex, const XdpSteering& steering) {
  if (added_ >= kAddedMax || !send_steering(ifindex, steering)) return false;
  ++added_;
  return true;
}

void Vault::clear() {
  if (!receiving_end_.valid()) return;
  set_peek_offset(receiving_end_.get(), -1);
  take_out_before(~std::uint64_t{0});
}

}  // namespace brdma::daemon
