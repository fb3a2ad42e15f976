// An impostor at brdmad's name: another user's gets no requests, and whatever any impostor hands over, the program
// continues.
#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#include "daemon_fixture.h"
#include "io/daemon/lease_protocol.h"
#include "io/system/pass_descriptors.h"

namespace brdma::test {
namespace {

constexpr uid_t kNobody = 65'534;

io::FileDescriptor memory_of(std::size_t bytes, int seals, unsigned flags = 0) {
  io::FileDescriptor fd{::memfd_create("impostor", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags)};
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

// A daemon's answer to a lease; right, but for the test's change.
struct Handed {
  io::LeaseReply reply;
  io::FileDescriptor socket{::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  io::FileDescriptor statistics = memory_of(sizeof(io::StatisticsPage), F_SEAL_SHRINK);
  io::FileDescriptor use = memory_of(sizeof(UseTable), F_SEAL_SHRINK);
  Handed() {
    reply.slot = 5;
    reply.lease_id = 1;
  }
};

// Listens in the daemon's place, as that user, and gives the same answer to every request.
class Impostor {
 public:
  explicit Impostor(const Handed& handed, uid_t uid = ::geteuid())
      : child_([this, &handed, uid] {
          if (uid != ::geteuid() && (::setgroups(0, nullptr) != 0 || ::setresuid(uid, uid, uid) != 0)) return 100;
          const io::FileDescriptor listener = listen_as_daemon(8);
          if (!listener.valid()) return 1;
          listening_.open();
          for (;;) answer(io::FileDescriptor{::accept(listener.get(), nullptr, nullptr)}, handed);
        }) {
    listening_.open();
    EXPECT_TRUE(listening_.wait());
  }

 private:
  static void answer(io::FileDescriptor client, const Handed& handed) {
    io::LeaseRequest request;
    (void)!::recv(client.get(), &request, sizeof request, MSG_WAITALL);
    const std::array<int, 3> passed{handed.socket.get(), handed.statistics.get(), handed.use.get()};
    (void)io::send_with_descriptors(client.get(),
                                    {reinterpret_cast<const std::byte*>(&handed.reply), sizeof handed.reply}, passed);
    char byte = 0;
    while (::recv(client.get(), &byte, 1, 0) > 0) {
    }
  }

  Gate listening_;  // before the child
  Child child_;
};

// Expects a refusal with a message; otherwise uses the lease, as a program would.
int use_what_is_handed() {
  auto lease = io::acquire_lease(loopback_device());
  if (!lease) return lease.reason().error;
  io::Lease& got = lease.value();
  std::memset(static_cast<void*>(got.statistics), 1, sizeof *got.statistics);
  std::memset(static_cast<void*>(got.events), 1, sizeof *got.events);
  got.device_use->rows[got.slot].queue_pairs = 1;
  return got.device_use->rows_used() > got.device_use->rows.size() ? 1 : 0;
}

void expect(int code, const std::function<void(Handed&)>& change, const char* what) {
  Handed handed;
  change(handed);
  const Impostor impostor{handed};
  EXPECT_EQ(Child(use_what_is_handed).join(), code) << what;
}

TEST_F(DaemonTest, WhateverAnImpostorHandsOverTheProgramGoesOn) {
  expect(
      0, [](Handed&) {}, "what a daemon hands over");
  expect(
      EPROTO, [](Handed& handed) { handed.reply.slot = io::kSlotCount; }, "a slot out of range");
  expect(
      EPROTO, [](Handed& handed) { handed.reply.slot = 1; }, "the daemon's own slot");
  expect(
      EPROTO, [](Handed& handed) { handed.reply.slot_bits = 40; }, "slots of another size");
  expect(
      EPROTO, [](Handed& handed) { handed.socket = io::FileDescriptor{::open("/dev/zero", O_RDWR)}; }, "no socket");
  expect(
      EPROTO, [](Handed& handed) { handed.socket.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)); },
      "a socket of another kind");
  expect(
      EPROTO, [](Handed& handed) { handed.socket.reset(::socket(AF_INET, SOCK_DGRAM, 0)); }, "a socket that blocks");
  expect(
      EPROTO, [](Handed& handed) { handed.statistics = memory_of(sizeof(io::StatisticsPage), F_SEAL_GROW); },
      "memory that can shrink");
  expect(
      EPROTO, [](Handed& handed) { handed.statistics = memory_of(4096, F_SEAL_SHRINK); }, "a page too small");
  expect(
      EPROTO, [](Handed& handed) { handed.use = memory_of(sizeof(UseTable) - 1, F_SEAL_SHRINK); }, "a table too small");
  expect(
      EPROTO, [](Handed& handed) { handed.use = memory_of(2 << 20, F_SEAL_SHRINK, MFD_HUGETLB); },
      "pages that may be missing");
  expect(
      EACCES,
      [](Handed& handed) {
        handed.reply.error = EACCES;
        std::memset(handed.reply.message.data(), 'x', handed.reply.message.size());
      },
      "a message without end");
}

// Outside of any user namespace nobody is an ordinary user.
TEST_F(DaemonTest, NobodysDaemonIsNotTrustedByRoot) {
  if (!can_change_user()) GTEST_SKIP() << "only root has other users' ids to try with";
  const Handed handed;
  const Impostor impostor{handed, kNobody};
  EXPECT_NE(lease_refusal(EACCES).find("(uid 65534)"), std::string::npos);
}

TEST(Owner, WhoIsOutsideOfAUserNamespaceLooksLikeNobody) {
  EXPECT_FALSE(io::is_whoever_is_outside("         0          0 4294967295\n", kNobody)) << "there is no outside";
  EXPECT_FALSE(io::is_whoever_is_outside("0 100000 65536\n", kNobody)) << "a nobody of its own";
  EXPECT_TRUE(io::is_whoever_is_outside("         0       1000          1\n", kNobody));
  EXPECT_TRUE(io::is_whoever_is_outside("0 1000 1\n1 100000 65533\n", kNobody));
  EXPECT_FALSE(io::is_whoever_is_outside("0 1000 1\n1 100000 65534\n", kNobody));
  EXPECT_FALSE(io::is_whoever_is_outside("", kNobody)) << "a map that cannot be read";
}

}  // namespace
}  // namespace brdma::test
