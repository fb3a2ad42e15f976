#include "io/system/process_memory.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/check.h"
#include "io/system/file_descriptor.h"
#include "io/udp/socket_address.h"

namespace brdma::io {
namespace {

constexpr std::size_t kPiecesMax = 24,
                      kSlicesMax = 40;  // of one fetch, and the beacon's (wire/local_reference.h: 20 and 32)

bool same(const LocalBeacon& beacon, const LocalClaim& claim) {
  return beacon.magic == LocalBeacon::kMagic && beacon.nonce == claim.nonce;
}

void* remote(std::uint64_t address) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)); }

// 0, or the errno of the failed read; ENODATA: it does not match.
int look_at_beacon(const LocalClaim& claim) {
  LocalBeacon beacon;
  const iovec to{&beacon, sizeof beacon}, from{remote(claim.beacon), sizeof beacon};
  const ssize_t got = process_vm_readv(static_cast<pid_t>(claim.pid), &to, 1, &from, 1, 0);
  if (got < 0) return errno;
  return static_cast<std::size_t>(got) == sizeof beacon && same(beacon, claim) ? 0 : ENODATA;
}

struct Owners {
  bool any = false, others = false;  // sockets with that port; some of them of other users
};

// Removes the next word of a line; empty: none.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

bool read_number(std::string_view word, int base, unsigned& number) {
  return std::from_chars(word.data(), word.data() + word.size(), number, base).ec == std::errc{};
}

// Not by sscanf(), which needs more stack than some threads have left.
bool read_socket(std::string_view line, unsigned& local_port, unsigned& uid) {
  constexpr int kBetween = 5;  // peer, state, queues, timer, timeouts
  (void)next_word(line);
  const std::string_view local = next_word(line);
  for (int i = 0; i < kBetween; ++i) (void)next_word(line);
  const std::size_t colon = local.find(':');
  return colon != std::string_view::npos && read_number(local.substr(colon + 1), 16, local_port) &&
         read_number(next_word(line), 10, uid);
}

// The UDP sockets of this network namespace bound to the port, with any address (proc_net(5)).
void look_for_owners(const char* file, std::uint16_t port, Owners& owners) {
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);  // the heading
  while (std::getline(lines, line)) {
    unsigned local_port = 0, uid = 0;
    if (!read_socket(line, local_port, uid) || local_port != port) continue;
    owners.any = true;
    owners.others = owners.others || uid != geteuid();
  }
}

bool sent_by_this_user(std::uint16_t port) {
  Owners owners;
  look_for_owners("/proc/thread-self/net/udp", port, owners);
  look_for_owners("/proc/thread-self/net/udp6", port, owners);
  return owners.any && !owners.others;
}

}  // namespace

ProcessMemory::ProcessMemory() {
  struct stat info {};
  if (stat("/proc/self/ns/pid", &info) == 0) pid_namespace_ = info.st_ino;
}

ProcessMemory& process_memory() {
  static ProcessMemory memory;
  return memory;
}

LocalClaim ProcessMemory::self() const {
  return {.pid = static_cast<std::uint32_t>(getpid()), .pid_namespace = pid_namespace_};
}

// Only an address of this network namespace's own can be bound. Packets to one never leave the host.
bool ProcessMemory::is_here(const IpAddress& peer) const {
  if (peer.is_zero() || is_link_local(peer)) return false;
  const FileDescriptor socket{::socket(peer.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!socket.valid()) return false;
  if (peer.is_v4()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr = to_in_addr(peer);
    return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = to_in6_addr(peer);
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

LocalState ProcessMemory::examine(const LocalClaim& claim, std::uint16_t source_port) {
  if (claim.pid_namespace != pid_namespace_ || pid_namespace_ == 0) return LocalState::kOtherPids;
  if (claim.pid == 0 || claim.pid > 0x7FFF'FFFF) return LocalState::kNoProcess;
  struct stat info {};
  if (stat(("/proc/" + std::to_string(claim.pid)).c_str(), &info) != 0) return LocalState::kNoProcess;
  if (info.st_uid != geteuid() || !sent_by_this_user(source_port)) return LocalState::kOtherUser;
  switch (look_at_beacon(claim)) {
    case 0:
      return LocalState::kFetches;
    case ENODATA:
    case EFAULT:
      return LocalState::kNoBeacon;
    case ESRCH:
      return LocalState::kNoProcess;
    default:
      return LocalState::kNotPermitted;
  }
}

// The data, then the beacon, in one call: the kernel copies in this order. After a partial copy, the beacon shows
// whether the peer still exists.
FetchResult ProcessMemory::fetch(const LocalClaim& peer, std::span<const LocalPiece> from, std::span<const Slice> to) {
  BRDMA_CHECK(from.size() < kPiecesMax && to.size() < kSlicesMax);
  LocalBeacon beacon;
  std::array<iovec, kPiecesMax> theirs;
  std::array<iovec, kSlicesMax> ours;
  std::size_t bytes = sizeof beacon, pieces = 0, slices = 0;
  for (const LocalPiece& piece : from) {
    theirs[pieces++] = {remote(piece.address), piece.length};
    bytes += piece.length;
  }
  for (const Slice& slice : to) ours[slices++] = {const_cast<void*>(slice.data), slice.size};
  theirs[pieces++] = {remote(peer.beacon), sizeof beacon};
  ours[slices++] = {&beacon, sizeof beacon};
  const ssize_t got = process_vm_readv(static_cast<pid_t>(peer.pid), ours.data(), slices, theirs.data(), pieces, 0);
  if (got >= 0 && static_cast<std::size_t>(got) == bytes) {
    return same(beacon, peer) ? FetchResult::kDone : FetchResult::kGone;
  }
  return look_at_beacon(peer) == 0 ? FetchResult::kFault : FetchResult::kGone;
}

}  // namespace brdma::io
