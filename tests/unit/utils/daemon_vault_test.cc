// The vault: its contents are found by any process with its descriptor, wherever its writer died.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "io/system/pass_descriptors.h"
#include "supervisor/vault.h"

namespace brdma::daemon {
namespace {

io::FileDescriptor some_file() { return io::FileDescriptor{::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }

io::FileDescriptor socket_of_port(std::uint16_t receive_timeout) {
  io::FileDescriptor fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  const timeval mark{receive_timeout, 0};  // a mark to recognize it
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &mark, sizeof mark);
  return fd;
}

long mark_of(int fd) {
  timeval mark{};
  socklen_t size = sizeof mark;
  return ::getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &mark, &size) == 0 ? mark.tv_sec : -1;
}

class VaultTest : public testing::Test {
 protected:
  void SetUp() override {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ASSERT_TRUE(vault_.valid());
  }
  void open_sockets(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) sockets_.push_back(socket_of_port(static_cast<std::uint16_t>(i + 1)));
  }
  [[nodiscard]] VaultBasis basis() const { return {listener_.get(), state_.get(), connections_.get(), &sockets_}; }
  [[nodiscard]] VaultLease lease(std::uint32_t slot, std::uint64_t id) const {
    return {slot, id, listener_.get(), state_.get()};
  }
  [[nodiscard]] std::vector<std::uint64_t> ids_found() const {
    auto found = Vault::look(vault_.fd());
    std::vector<std::uint64_t> ids;
    if (!found) return ids;
    for (const auto& each : found.value().leases) {
      EXPECT_TRUE(each.connection.valid() && each.statistics.valid());
      ids.push_back(each.id);
    }
    return ids;
  }

  Vault vault_ = Vault::create();
  io::FileDescriptor listener_ = some_file(), state_ = some_file(), connections_ = some_file();
  std::vector<io::FileDescriptor> sockets_;
};

using Ids = std::vector<std::uint64_t>;

TEST_F(VaultTest, WhatIsPutInIsFoundAndStays) {
  open_sockets(256);
  const std::array leases{lease(2, 1), lease(7, 2)};
  ASSERT_EQ(vault_.rewrite(basis(), {}, leases).error, 0);
  sockets_.clear();  // the writer is dead
  for (int look = 0; look < 2; ++look) {
    auto looked = Vault::look(vault_.fd());
    ASSERT_TRUE(looked) << looked.reason().message;
    Vault::Found& found = looked.value();
    EXPECT_TRUE(found.listener.valid() && found.state.valid() && found.connections.valid() &&
                found.sending_end.valid());
    ASSERT_EQ(found.sockets.size(), 256u);
    for (std::size_t slot = 0; slot < 256; ++slot)
      EXPECT_EQ(mark_of(found.sockets[slot].get()), static_cast<long>(slot) + 1);
    ASSERT_EQ(found.leases.size(), 2u);
    EXPECT_EQ(found.leases[1].slot, 7u);
    EXPECT_EQ(found.leases[1].id, 2u);
  }
}

// The programs that keep users apart outlive the daemon as its sockets do.
TEST_F(VaultTest, TheGuardOfSocketsIsFoundBesideThem) {
  open_sockets(256);
  std::vector<io::FileDescriptor> guard;
  for (int i = 0; i < 3; ++i) guard.push_back(some_file());
  VaultBasis guarded = basis();
  guarded.guard = &guard;
  ASSERT_EQ(vault_.rewrite(guarded, {}, {}).error, 0);
  const auto looked = Vault::look(vault_.fd());
  ASSERT_TRUE(looked) << looked.reason().message;
  EXPECT_EQ(looked.value().guard.size(), 3u);
  EXPECT_EQ(looked.value().sockets.size(), 256u);
  ASSERT_EQ(vault_.rewrite(basis(), {}, {}).error, 0);
  EXPECT_TRUE(Vault::look(vault_.fd()).value().guard.empty());
}

// Each user's table, also one that came later, or replaced one.
TEST_F(VaultTest, TablesAreFoundByTheirUser) {
  open_sockets(1);
  std::vector<VaultTable> tables;
  for (std::uint32_t uid = 1000; uid < 1300; ++uid) tables.push_back({uid, listener_.get()});
  ASSERT_EQ(vault_.rewrite(basis(), tables, {}).error, 0);
  const io::FileDescriptor later = socket_of_port(77);
  EXPECT_TRUE(vault_.add(VaultTable{1007, later.get()}));
  EXPECT_TRUE(vault_.add(VaultTable{1300, later.get()}));
  const auto looked = Vault::look(vault_.fd());
  ASSERT_TRUE(looked) << looked.reason().message;
  EXPECT_EQ(looked.value().tables.size(), 301u);
  for (const std::uint32_t uid : {1007u, 1300u}) EXPECT_EQ(mark_of(looked.value().tables.at(uid).get()), 77);
  EXPECT_EQ(mark_of(looked.value().tables.at(1006).get()), -1);
  EXPECT_TRUE(looked.value().leases.empty());
}

// Likewise the steering of an interface.
TEST_F(VaultTest, SteeringIsFoundByItsInterface) {
  open_sockets(1);
  const auto steering = [](std::uint16_t mark) {
    return XdpSteering{socket_of_port(mark), some_file(), some_file(), some_file()};
  };
  KeptSteerings steerings;
  steerings.emplace(3, steering(33));
  VaultBasis with = basis();
  with.steerings = &steerings;
  ASSERT_EQ(vault_.rewrite(with, {}, {}).error, 0);
  EXPECT_TRUE(vault_.add(4, steering(44)));
  const auto looked = Vault::look(vault_.fd());
  ASSERT_TRUE(looked) << looked.reason().message;
  ASSERT_EQ(looked.value().steerings.size(), 2u);
  EXPECT_EQ(mark_of(looked.value().steerings.at(3).link.get()), 33);
  EXPECT_EQ(mark_of(looked.value().steerings.at(4).link.get()), 44);
  EXPECT_TRUE(looked.value().steerings.at(4).sockets.valid());
  ASSERT_EQ(vault_.rewrite(basis(), {}, {}).error, 0);
  EXPECT_TRUE(Vault::look(vault_.fd()).value().steerings.empty());
}

TEST_F(VaultTest, ThousandsOfSocketsAndLeases) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 17'000) GTEST_SKIP() << "too few descriptors";
  open_sockets(4096);
  std::vector<VaultLease> leases;
  for (std::uint32_t i = 0; i < 4000; ++i) leases.push_back(lease(i + 2, i + 1));
  ASSERT_EQ(vault_.rewrite(basis(), {}, leases).error, 0);
  ASSERT_EQ(vault_.rewrite(basis(), {}, leases).error, 0)
      << "the old generation is still there while a new one is written";
  auto looked = Vault::look(vault_.fd());
  ASSERT_TRUE(looked) << looked.reason().message;
  ASSERT_EQ(looked.value().sockets.size(), 4096u);
  EXPECT_EQ(mark_of(looked.value().sockets[4000].get()), 4001);
  EXPECT_EQ(looked.value().leases.size(), 4000u);
}

TEST_F(VaultTest, LeasesAreAddedUntilANewGenerationIsDue) {
  open_sockets(3);
  ASSERT_EQ(vault_.rewrite(basis(), {}, {}).error, 0);
  std::uint64_t id = 0;
  while (vault_.add(lease(5, ++id))) {
    ASSERT_LT(id, 1000u) << "it grows without bound";
  }
  EXPECT_EQ(ids_found().size(), id - 1);
  const std::array living{lease(5, id)};
  ASSERT_EQ(vault_.rewrite(basis(), {}, living).error, 0);
  EXPECT_EQ(ids_found(), Ids{id});
  EXPECT_TRUE(vault_.add(lease(6, id + 1)));
  EXPECT_EQ(ids_found(), (Ids{id, id + 1}));
}

struct Raw {
  std::vector<std::byte> bytes;
  std::vector<io::FileDescriptor> descriptors;
};

std::vector<Raw> take_out(int fd) {
  std::vector<Raw> all;
  for (;;) {
    Raw raw{std::vector<std::byte>(4096), std::vector<io::FileDescriptor>(io::kPassedDescriptorsMax)};
    const ssize_t got = io::receive_with_descriptors(fd, raw.bytes, raw.descriptors, MSG_DONTWAIT);
    if (got <= 0) return all;
    raw.bytes.resize(static_cast<std::size_t>(got));
    std::erase_if(raw.descriptors, [](const io::FileDescriptor& each) { return !each.valid(); });
    all.push_back(std::move(raw));
  }
}

// The vault of a writer that died: of its messages those from `first` on, and `count` of them.
void put(int fd, const std::vector<Raw>& messages, std::size_t first, std::size_t count) {
  for (std::size_t i = first; i < first + count; ++i) {
    std::vector<int> descriptors;
    for (const io::FileDescriptor& each : messages[i].descriptors) descriptors.push_back(each.get());
    ASSERT_EQ(io::send_with_descriptors(fd, messages[i].bytes, descriptors, MSG_DONTWAIT),
              static_cast<ssize_t>(messages[i].bytes.size()));
  }
}

// It writes the new generation behind the old one, and then takes out the old one: it may die after each message.
TEST_F(VaultTest, AWriterMayDieAtAnyMessage) {
  open_sockets(600);
  const std::array before{lease(2, 1)};
  const std::array after{lease(2, 1), lease(3, 2)};
  ASSERT_EQ(vault_.rewrite(basis(), {}, before).error, 0);
  const std::vector<Raw> old_ones = take_out(vault_.fd());
  ASSERT_EQ(vault_.rewrite(basis(), {}, after).error, 0);
  const std::vector<Raw> new_ones = take_out(vault_.fd());
  ASSERT_EQ(old_ones.size(), 6u) << "basis, three runs of sockets, leases, the end";
  const auto found_in = [&](std::size_t old_taken, std::size_t new_written) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    io::FileDescriptor here{ends[0]}, there{ends[1]};
    put(there.get(), old_ones, old_taken, old_ones.size() - old_taken);
    put(there.get(), new_ones, 0, new_written);
    auto looked = Vault::look(here.get());
    if (!looked) return std::size_t{0};
    EXPECT_EQ(looked.value().sockets.size(), 600u);
    const std::size_t leases = looked.value().leases.size();
    // The next daemon's first deed.
    Vault next = Vault::adopt(std::move(here), std::move(there));
    EXPECT_EQ(next.rewrite(basis(), {}, after).error, 0);
    auto again = Vault::look(next.fd());
    EXPECT_TRUE(again && again.value().leases.size() == 2);
    return leases;
  };
  for (std::size_t written = 0; written < new_ones.size(); ++written) EXPECT_EQ(found_in(0, written), 1u) << written;
  for (std::size_t taken = 0; taken <= old_ones.size(); ++taken)
    EXPECT_EQ(found_in(taken, new_ones.size()), 2u) << taken;
}

// A worker is forked from the holder, which has not seen the messages of earlier workers.
TEST_F(VaultTest, AnotherWriterGoesOnWithTheNumbers) {
  open_sockets(2);
  const std::array before{lease(2, 1)};
  ASSERT_EQ(vault_.rewrite(basis(), {}, before).error, 0);
  auto looked = Vault::look(vault_.fd());
  ASSERT_TRUE(looked);
  Vault forked = Vault::adopt(io::FileDescriptor{::dup(vault_.fd())}, std::move(looked.value().sending_end));
  const std::array after{lease(3, 2)};
  ASSERT_EQ(forked.rewrite(basis(), {}, after).error, 0);
  EXPECT_EQ(ids_found(), Ids{2});
  EXPECT_TRUE(forked.add(lease(4, 3)));
  EXPECT_EQ(ids_found(), (Ids{2, 3}));
}

TEST_F(VaultTest, AnEmptyOneIsStale) {
  EXPECT_EQ(Vault::look(vault_.fd()).reason().error, ESTALE);
  open_sockets(2);
  ASSERT_EQ(vault_.rewrite(basis(), {}, {}).error, 0);
  EXPECT_TRUE(Vault::look(vault_.fd()));
  vault_.clear();
  EXPECT_EQ(Vault::look(vault_.fd()).reason().error, ESTALE);
}

TEST_F(VaultTest, WhatIsNoVaultIsRefused) {
  const io::FileDescriptor file = some_file();
  EXPECT_FALSE(Vault::look(file.get()));
  EXPECT_FALSE(Vault::look(-1));
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const io::FileDescriptor here{ends[0]}, there{ends[1]};
  ASSERT_EQ(::send(there.get(), "nonsense", 8, 0), 8);
  EXPECT_EQ(Vault::look(here.get()).reason().error, EPROTO);
}

// Nothing in a vault outlives its last holder.
TEST_F(VaultTest, ItEndsWithItsLastDescriptor) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const io::FileDescriptor reading{ends[0]};
  sockets_.emplace_back(ends[1]);
  ASSERT_EQ(vault_.rewrite(basis(), {}, {}).error, 0);
  sockets_.clear();
  char byte = 0;
  ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  EXPECT_EQ(::read(reading.get(), &byte, 1), -1) << "the vault keeps it open";
  vault_ = Vault{};
  EXPECT_EQ(::read(reading.get(), &byte, 1), 0);
}

}  // namespace
}  // namespace brdma::daemon
