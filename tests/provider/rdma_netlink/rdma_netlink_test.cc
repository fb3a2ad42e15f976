// RDMA_NETLINK as programs get it: the socket itself, and iproute2's rdma, unmodified.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "io/private_network.h"
#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr, testing::IsEmpty, testing::SizeIs;
using Bytes = std::vector<std::byte>;

constexpr int kRdma = 20;  // NETLINK_RDMA
constexpr std::uint16_t kGetDevices = 0x1401, kGetSystem = 0x1406, kDump = NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP;
constexpr std::uint32_t kSequence = 17;

nlmsghdr request(std::uint16_t type, std::uint16_t flags) { return {sizeof(nlmsghdr), type, flags, kSequence, 0}; }

struct Received {
  nlmsghdr header{};
  sockaddr_nl from{};
  socklen_t from_bytes = 0;
};

class Socket {
 public:
  explicit Socket(int type = SOCK_RAW, int protocol = kRdma)
      : fd_(::socket(AF_NETLINK, type | SOCK_CLOEXEC, protocol)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

  bool bind() {
    const sockaddr_nl any{AF_NETLINK, 0, 0, 0};
    return ::bind(fd_, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
  }
  [[nodiscard]] std::uint32_t port() const {
    sockaddr_nl own{};
    socklen_t bytes = sizeof own;
    return ::getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &bytes) == 0 ? own.nl_pid : 0;
  }
  ssize_t send(const void* bytes, std::size_t count, std::uint32_t port = 0) const {
    const sockaddr_nl to{AF_NETLINK, 0, port, 0};
    return ::sendto(fd_, bytes, count, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  // As libmnl reads. Type 0: nothing is there.
  [[nodiscard]] Received receive() const {
    Received got;
    std::array<std::byte, 4096> bytes{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_name = &got.from;
    message.msg_namelen = sizeof got.from;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t count = ::recvmsg(fd_, &message, MSG_DONTWAIT);
    if (count < static_cast<ssize_t>(sizeof got.header)) return {};
    std::memcpy(&got.header, bytes.data(), sizeof got.header);
    got.from_bytes = message.msg_namelen;
    return got;
  }
  [[nodiscard]] bool is_readable() const {
    pollfd one{fd_, POLLIN, 0};
    return ::poll(&one, 1, 0) == 1 && (one.revents & POLLIN) != 0;
  }

 private:
  int fd_;
};

TEST(RdmaNetlink, DumpOfDevices) {
  Socket socket;
  ASSERT_TRUE(socket.bind());
  EXPECT_NE(socket.port(), 0u);
  EXPECT_FALSE(socket.is_readable());
  const nlmsghdr asked = request(kGetDevices, kDump);
  ASSERT_EQ(socket.send(&asked, sizeof asked), static_cast<ssize_t>(sizeof asked));
  EXPECT_TRUE(socket.is_readable());
  const Received device = socket.receive();
  EXPECT_EQ(device.header.nlmsg_type, kGetDevices);
  EXPECT_EQ(device.header.nlmsg_pid, socket.port());
  EXPECT_EQ(device.header.nlmsg_seq, kSequence);
  EXPECT_EQ(device.from.nl_family, AF_NETLINK);
  EXPECT_EQ(device.from.nl_pid, 0u);  // from the kernel, for all that a program can see
  EXPECT_EQ(device.from_bytes, sizeof device.from);
  EXPECT_EQ(socket.receive().header.nlmsg_type, NLMSG_DONE);
  EXPECT_FALSE(socket.is_readable());
}

TEST(RdmaNetlink, EveryWayToSendAndReceive) {
  Socket socket(SOCK_DGRAM);
  nlmsghdr asked = request(kGetSystem, NLM_F_REQUEST);
  iovec halves[] = {{&asked, 8}, {reinterpret_cast<std::byte*>(&asked) + 8, 8}};
  msghdr message{};
  message.msg_iov = halves;
  message.msg_iovlen = 2;
  std::array<std::byte, 4096> bytes{};
  sockaddr_nl from{};
  socklen_t from_bytes = sizeof from;
  EXPECT_EQ(::write(socket.fd(), &asked, sizeof asked), 16);  // not bound: the first request does it
  EXPECT_EQ(::read(socket.fd(), bytes.data(), bytes.size()), 40);
  EXPECT_EQ(::send(socket.fd(), &asked, sizeof asked, 0), 16);
  EXPECT_EQ(::recv(socket.fd(), bytes.data(), bytes.size(), 0), 40);
  EXPECT_EQ(::sendmsg(socket.fd(), &message, 0), 16);
  EXPECT_EQ(::recvfrom(socket.fd(), bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_bytes),
            40);
  EXPECT_EQ(from.nl_pid, 0u);
  const int copy = ::dup(socket.fd());
  EXPECT_EQ(::write(copy, &asked, sizeof asked), 16);
  EXPECT_EQ(::close(copy), 0);
  EXPECT_EQ(::read(socket.fd(), bytes.data(), bytes.size()), 40);
}

TEST(RdmaNetlink, AnswersBeyondTheBufferWait) {
  Socket socket;
  ASSERT_TRUE(socket.bind());
  const int small = 1;
  ASSERT_EQ(::setsockopt(socket.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
  constexpr int kRequests = 1000;
  std::vector<nlmsghdr> all(kRequests, request(kGetSystem, NLM_F_REQUEST));
  const std::size_t bytes = all.size() * sizeof(nlmsghdr);
  ASSERT_EQ(socket.send(all.data(), bytes), static_cast<ssize_t>(bytes));
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(socket.is_readable()) << i;
    ASSERT_EQ(socket.receive().header.nlmsg_type, kGetSystem) << i;
  }
  EXPECT_FALSE(socket.is_readable());
}

// Anybody may send to a socket of the protocol that stands in for RDMA_NETLINK; not to one that has asked.
TEST(RdmaNetlink, StrangersCannotAnswer) {
  Socket socket, stranger(SOCK_RAW, NETLINK_USERSOCK);
  ASSERT_TRUE(socket.bind());
  ASSERT_TRUE(stranger.bind());
  const nlmsghdr forged = request(0x1409, 0);
  EXPECT_EQ(stranger.send(&forged, sizeof forged, socket.port()), 16);  // before the first request: forgotten by it
  const nlmsghdr asked = request(kGetSystem, NLM_F_REQUEST);
  ASSERT_EQ(socket.send(&asked, sizeof asked), 16);
  EXPECT_EQ(stranger.send(&forged, sizeof forged, socket.port()), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_EQ(socket.receive().header.nlmsg_type, kGetSystem);
  EXPECT_FALSE(socket.is_readable());
}

TEST(RdmaNetlink, WrongCallsHaveErrnos) {
  Socket socket;
  const nlmsghdr asked = request(kGetSystem, NLM_F_REQUEST);
  const Bytes large(std::size_t{1} << 20);
  EXPECT_EQ(socket.send(&asked, sizeof asked, 1), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(socket.send(large.data(), large.size()), -1);
  EXPECT_EQ(errno, EMSGSIZE);
  const char* volatile nowhere = nullptr;
  EXPECT_EQ(::send(socket.fd(), nowhere, 16, 0), -1);
  EXPECT_EQ(errno, EFAULT);
  sockaddr other{};
  other.sa_family = AF_INET;
  EXPECT_EQ(::sendto(socket.fd(), &asked, sizeof asked, 0, &other, sizeof other), -1);
  EXPECT_EQ(errno, EINVAL);
}

// The socket that answers is one of the process's descriptors, and some programs close all that they do not know.
TEST(RdmaNetlink, SurvivesAClosedHelper) {
  Socket socket;
  const nlmsghdr asked = request(kGetSystem, NLM_F_REQUEST);
  ASSERT_EQ(socket.send(&asked, sizeof asked), 16);
  EXPECT_EQ(socket.receive().header.nlmsg_type, kGetSystem);
  for (int fd = 3; fd < 64; ++fd) {
    if (fd != socket.fd()) ::close(fd);
  }
  ASSERT_EQ(socket.send(&asked, sizeof asked), 16);
  EXPECT_EQ(socket.receive().header.nlmsg_type, kGetSystem);
}

TEST(RdmaNetlink, ForkedChildMayAsk) {
  Socket socket;
  const nlmsghdr asked = request(kGetSystem, NLM_F_REQUEST);
  ASSERT_EQ(socket.send(&asked, sizeof asked), 16);
  EXPECT_EQ(socket.receive().header.nlmsg_type, kGetSystem);
  const pid_t child = ::fork();
  if (child == 0) {
    Socket own;
    const bool works = own.send(&asked, sizeof asked) == 16 && own.receive().header.nlmsg_type == kGetSystem;
    ::_exit(works ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// --- iproute2's rdma ---

struct Outcome {
  int exit_code = -1;
  std::string output;
};
Outcome run(const std::string& command) {
  Outcome outcome;
  std::FILE* const pipe = ::popen(("timeout -s KILL 30 " + command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

class RdmaTool : public testing::Test {
 protected:
  void SetUp() override {
    if (run("sh -c 'command -v rdma'").exit_code != 0) GTEST_SKIP() << "no rdma here: apt-get install iproute2";
  }
  // Of this process, where an object of it is meant.
  static Json json_of(const std::string& words) {
    const Outcome outcome = run("rdma -j " + words);
    EXPECT_EQ(outcome.exit_code, 0) << words << "\n" << outcome.output;
    return Json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
  }
};

std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}
using Keys = std::set<std::string>;

// Keys as `rdma -j` prints them of a kernel's Soft-RoCE device, with what a device with firmware has more.
TEST_F(RdmaTool, DevicesAndLinks) {
  const Json devices = json_of("dev");
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_EQ(devices[0]["ifname"], "brdma_lo");
  EXPECT_EQ(devices[0]["node_type"], "ca");
  EXPECT_EQ(keys_of(devices[0]), (Keys{"ifindex", "ifname", "node_type", "fw", "node_guid", "sys_image_guid"}));
  const Json links = json_of("link");
  ASSERT_THAT(links, SizeIs(1));
  EXPECT_EQ(links[0]["state"], "ACTIVE");
  EXPECT_EQ(links[0]["netdev"], "lo");
  EXPECT_EQ(keys_of(links[0]),
            (Keys{"ifindex", "ifname", "port", "state", "physical_state", "netdev", "netdev_index"}));
  EXPECT_THAT(run("rdma link show brdma_lo/1").output,
              HasSubstr("link brdma_lo/1 state ACTIVE physical_state LINK_UP netdev lo"));
  EXPECT_THAT(run("rdma -d dev").output, HasSubstr("caps: <"));
}

TEST_F(RdmaTool, SystemAndStatistics) {
  EXPECT_THAT(run("rdma system").output, HasSubstr("netns exclusive"));
  const Json counters = json_of("statistic");
  ASSERT_THAT(counters, SizeIs(1));
  EXPECT_EQ(keys_of(counters[0]),
            (Keys{"ifname", "port", "sent_pkts", "rcvd_pkts", "duplicate_request", "out_of_seq_request", "rcvd_rnr_err",
                  "send_rnr_err", "rcvd_seq_err", "ack_deferred", "retry_exceeded_err", "retry_rnr_exceeded_err",
                  "completer_retry_err", "send_err", "link_downed", "rdma_sends", "rdma_recvs"}));
  EXPECT_EQ(run("rdma statistic mode").exit_code, 0);
}

TEST_F(RdmaTool, ObjectsOfAProgram) {
  const Json before = json_of("resource")[0];
  EXPECT_EQ(keys_of(before), (Keys{"ifindex", "ifname", "pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"}));
  {
    Side side = Side::make(), other = Side::make();
    ASSERT_NE(side.qp, nullptr);
    connect(side, other);
    ibv_srq_init_attr wanted{};
    wanted.attr.max_wr = wanted.attr.max_sge = 1;
    ibv_srq* const srq = ibv_create_srq(side.pd.get(), &wanted);
    ASSERT_NE(srq, nullptr);
    const Json during = json_of("resource")[0];
    for (const char* kind : {"pd", "cq", "qp", "mr"}) {
      EXPECT_EQ(during[kind].get<int>(), before[kind].get<int>() + 2) << kind;
    }
    EXPECT_EQ(during["ctx"].get<int>(), before["ctx"].get<int>() + 1);  // contexts of a process share a lease
    EXPECT_EQ(during["srq"].get<int>(), before["srq"].get<int>() + 1);
    const Json pairs = json_of("resource show qp");
    ASSERT_THAT(pairs, SizeIs(2));
    EXPECT_EQ(keys_of(pairs[0]), (Keys{"ifindex", "ifname", "port", "lqpn", "rqpn", "type", "state", "rq-psn", "sq-psn",
                                       "path-mig-state", "pdn", "pid", "comm"}));
    EXPECT_EQ(pairs[0]["state"], "RTS");
    EXPECT_EQ(pairs[0]["pid"], ::getpid());
    const std::string first = std::to_string(side.qp->qp_num);
    const Json one = json_of("resource show qp lqpn " + first);
    ASSERT_THAT(one, SizeIs(1));
    EXPECT_EQ(one[0]["rqpn"], other.qp->qp_num);
    EXPECT_THAT(json_of("resource show cq"), SizeIs(2));
    EXPECT_THAT(json_of("resource show pd"), SizeIs(2));
    EXPECT_THAT(json_of("resource show srq"), SizeIs(1));
    const Json regions = json_of("resource show mr");
    ASSERT_THAT(regions, SizeIs(2));
    EXPECT_EQ(regions[0]["mrlen"], 1 << 16);
    const Json contexts = json_of("resource show ctx");
    ASSERT_THAT(contexts, SizeIs(1));
    EXPECT_EQ(contexts[0]["pid"], ::getpid());
    EXPECT_THAT(json_of("resource show cm_id"), IsEmpty());
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
  }
  EXPECT_EQ(json_of("resource")[0]["qp"], before["qp"]);
}

TEST_F(RdmaTool, CountersMove) {
  Side side = Side::make(), other = Side::make();
  ASSERT_NE(side.qp, nullptr);
  connect(side, other);
  const auto sent = [this] { return json_of("statistic")[0]["sent_pkts"].get<std::uint64_t>(); };
  const std::uint64_t before = sent();
  ibv_sge sge = side.sge(0, 8);
  ASSERT_EQ(post_send(side, write_request(sge, other)), 0);
  EXPECT_EQ(wait_completion(side.cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_GT(sent(), before);
}

TEST_F(RdmaTool, ChangesAreRefusedInWords) {
  const Outcome renamed = run("rdma dev set brdma_lo name other");
  EXPECT_EQ(renamed.exit_code, 1);
  EXPECT_THAT(renamed.output, HasSubstr("Operation not supported"));
  EXPECT_EQ(run("rdma dev set brdma_lo name brdma_lo").exit_code, 0);
  EXPECT_THAT(run("rdma link add x type brdma netdev lo").output, HasSubstr("File exists"));
  EXPECT_THAT(run("rdma link add x type brdma netdev nothing").output, HasSubstr("No such device"));
  EXPECT_THAT(run("rdma link delete brdma_lo").output, HasSubstr("Invalid argument"));
  EXPECT_THAT(run("rdma link delete x").output, HasSubstr("Wrong device name"));
}

// libibverbs goes on by the device files, which know this library's devices better.
TEST(RdmaNetlink, LibibverbsReadsFiles) { EXPECT_NE(open_first_device(), nullptr); }

}  // namespace
}  // namespace brdma::test
