// Rights that a program may give up while a device is open: its root, its user, its being dumpable. A program with an
// open device needs no path and no right any more, as with a kernel's device, whose open node takes every command.
// Descriptors are few as well: a completion queue needs none.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr uid_t kOther = 65'534;

// In a process of its own, as it cannot be undone. 0: no failure in it.
int in_a_process(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

struct Loss {
  const char* name;
  bool (*suffer)();
};

bool change_root() {
  std::string empty = "/tmp/brdma-empty-XXXXXX";
  const int parent = ::open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0 || ::mkdtemp(empty.data()) == nullptr) return false;
  const bool done = ::chroot(empty.c_str()) == 0 && ::chdir("/") == 0;
  const bool removed = ::unlinkat(parent, empty.c_str() + sizeof "/tmp", AT_REMOVEDIR) == 0;
  ::close(parent);
  return done && removed;
}

bool change_user() { return ::setgroups(0, nullptr) == 0 && ::setgid(kOther) == 0 && ::setuid(kOther) == 0; }

bool change_effective_user() { return ::setegid(kOther) == 0 && ::seteuid(kOther) == 0; }

bool become_undumpable() { return ::prctl(PR_SET_DUMPABLE, 0) == 0; }

bool able(bool (*suffer)()) {
  return in_a_process([suffer] {
           if (!suffer()) ::_exit(1);
         }) == 0;
}

class Rights : public testing::TestWithParam<Loss> {
 protected:
  void SetUp() override {
    if (!able(GetParam().suffer)) GTEST_SKIP() << "not to be had by this user";
  }
};

// Two connected queue pairs and an event.
void expect_it_works(ibv_context* context, ibv_pd* pd, ibv_comp_channel* channel) {
  std::vector<std::uint8_t> memory(8192);
  const Owned<ibv_mr> mr(
      ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
  ASSERT_NE(mr, nullptr);
  const Owned<ibv_cq> cq(ibv_create_cq(context, 16, nullptr, channel, 0));
  ASSERT_NE(cq, nullptr) << errno;
  ibv_qp_init_attr wanted = usual_queue_pair(cq.get());
  const Owned<ibv_qp> qp(ibv_create_qp(pd, &wanted)), peer(ibv_create_qp(pd, &wanted));
  ASSERT_TRUE(qp != nullptr && peer != nullptr);
  for (ibv_qp* each : {qp.get(), peer.get()}) ASSERT_EQ(to_init(each), 0);
  ASSERT_EQ(to_rtr(qp.get(), peer.get()), 0);
  ASSERT_EQ(to_rtr(peer.get(), qp.get()), 0);
  for (ibv_qp* each : {qp.get(), peer.get()}) ASSERT_EQ(to_rts(each), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq.get(), 0), 0);
  memory[0] = 9;
  ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(memory.data()), .length = 64, .lkey = mr->lkey};
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma = {.remote_addr = sge.addr + 4096, .rkey = mr->rkey};
  ASSERT_EQ(ibv_post_send(qp.get(), &request, &bad), 0);
  pollfd readable{channel->fd, POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 10'000), 1);
  ibv_cq* event_cq = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(channel, &event_cq, &user), 0);
  EXPECT_EQ(event_cq, cq.get());
  ibv_ack_cq_events(event_cq, 1);
  EXPECT_EQ(wait_completion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(memory[4096], 9);
}

TEST_P(Rights, AreNotNeededOnceTheDeviceIsOpen) {
  EXPECT_EQ(in_a_process([] {
              const Owned<ibv_context> context = open_first_device();
              ASSERT_NE(context, nullptr);
              const Owned<ibv_pd> pd(ibv_alloc_pd(context.get()));
              ASSERT_TRUE(GetParam().suffer());
              const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(context.get()));
              ASSERT_NE(channel, nullptr) << errno;
              expect_it_works(context.get(), pd.get(), channel.get());
            }),
            0);
}

TEST_P(Rights, AreNotNeededByACompletionQueueOfAnOlderChannel) {
  EXPECT_EQ(in_a_process([] {
              const Owned<ibv_context> context = open_first_device();
              ASSERT_NE(context, nullptr);
              const Owned<ibv_pd> pd(ibv_alloc_pd(context.get()));
              const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(context.get()));
              ASSERT_NE(channel, nullptr);
              expect_it_works(context.get(), pd.get(), channel.get());
              ASSERT_TRUE(GetParam().suffer());
              expect_it_works(context.get(), pd.get(), channel.get());
            }),
            0);
}

INSTANTIATE_TEST_SUITE_P(Losses, Rights,
                         testing::Values(Loss{"Root", change_root}, Loss{"User", change_user},
                                         Loss{"EffectiveUser", change_effective_user},
                                         Loss{"Dumpable", become_undumpable}),
                         [](const auto& info) { return info.param.name; });

// Everybody may open RDMA-CM's node, also after the devices were listed as another user.
TEST(RightsOfRdmaCm, AChannelIsOpenedAfterAChangeOfUser) {
  if (!able(change_user)) GTEST_SKIP() << "not to be had by this user";
  EXPECT_EQ(in_a_process([] {
              const Owned<ibv_context> context = open_first_device();
              ASSERT_NE(context, nullptr);
              ASSERT_TRUE(change_user());
              rdma_event_channel* const channel = rdma_create_event_channel();
              ASSERT_NE(channel, nullptr) << errno;
              rdma_cm_id* id = nullptr;
              ASSERT_EQ(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), 0) << errno;
              sockaddr_in any{};
              any.sin_family = AF_INET;
              EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)), 0) << errno;
              EXPECT_EQ(rdma_listen(id, 1), 0) << errno;
              EXPECT_EQ(rdma_destroy_id(id), 0);
              rdma_destroy_event_channel(channel);
            }),
            0);
}

TEST(Descriptors, ACompletionQueueNeedsNone) {
  // brdmad is started with more of them: descriptors that daemons of other tests have not closed yet count as its own.
  const Owned<ibv_context> first = open_first_device();
  EXPECT_EQ(in_a_process([] {
              const rlimit usual{.rlim_cur = 1024, .rlim_max = 1024};
              ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
              const Owned<ibv_context> context = open_first_device();
              ASSERT_NE(context, nullptr);
              const Owned<ibv_comp_channel> channel(ibv_create_comp_channel(context.get()));
              ASSERT_NE(channel, nullptr);
              std::vector<Owned<ibv_cq>> queues(2000);
              for (Owned<ibv_cq>& queue : queues) {
                queue.reset(ibv_create_cq(context.get(), 4, nullptr, channel.get(), 0));
                ASSERT_NE(queue, nullptr) << &queue - queues.data() << ": " << errno;
              }
            }),
            0);
}

// Two of each channel, and all are given back with it.
TEST(Descriptors, AreWhatRunsOutAndComeBack) {
  const Owned<ibv_context> first = open_first_device();  // as above
  EXPECT_EQ(in_a_process([] {
              const rlimit few{.rlim_cur = 128, .rlim_max = 128};
              ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
              const Owned<ibv_context> context = open_first_device();
              ASSERT_NE(context, nullptr);
              std::size_t counts[2] = {};
              for (std::size_t& count : counts) {
                std::vector<Owned<ibv_comp_channel>> channels;
                for (;; ++count) {
                  channels.emplace_back(ibv_create_comp_channel(context.get()));
                  if (channels.back() != nullptr) continue;
                  EXPECT_EQ(errno, EMFILE);
                  break;
                }
              }
              EXPECT_GE(counts[0], 30u);
              EXPECT_EQ(counts[0], counts[1]);
            }),
            0);
}

}  // namespace
}  // namespace brdma::test
