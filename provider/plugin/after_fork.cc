#include "plugin/after_fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include "context/shared_device.h"
#include "plugin/libibverbs.h"
#include "rdma_cm/server.h"
#include "verbs/objects.h"
#include "verbs/placed.h"
#include "verbs/verbs.h"

namespace brdma::provider {
namespace {

static_assert(std::atomic<pid_t>::is_always_lock_free);

template <class Answer, class... Arguments>
Answer refuse(Arguments...) {
  complain_of_abandoned();
  if constexpr (std::is_pointer_v<Answer>) {
    return fail<std::remove_pointer_t<Answer>>(EIO);
  } else if constexpr (!std::is_void_v<Answer>) {
    return EIO;
  }
}

struct Refused {
  abi::OpTable& ops;
  template <class Answer, class... Arguments>
  void operator()(std::string_view name, Answer (*)(Arguments...)) const {
    ops.set(name, &refuse<Answer, Arguments...>);
  }
};

int poll_nothing(ibv_cq*, int, ibv_wc*) {
  complain_of_abandoned();
  return -EIO;
}

template <class Queue, class WorkRequest>
int post_nothing(Queue*, WorkRequest* requests, WorkRequest** bad) {
  complain_of_abandoned();
  *bad = requests;
  return EIO;
}

// The engine's part stays: it ends with the process.
template <class Core>
int give_back(Core* core) {
  delete &object_of(core);
  return 0;
}

template <class Core>
int give_back_placed(Core* core) {
  delete_object(&object_of(core));
  return 0;
}

}  // namespace

Status Ownership::make() {
  void* const page = ::mmap(nullptr, sizeof *word_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return Status(errno);
  word_ = new (page) std::atomic<pid_t>(0);
  return Status::success();
}

Ownership::~Ownership() {
  if (word_ != nullptr) ::munmap(word_, sizeof *word_);
}

bool Ownership::take() {
  pid_t owner = 0;
  const pid_t self = ::getpid();
  return word_->compare_exchange_strong(owner, self) || owner == self;
}

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::pthread_atfork(&SharedDevice::before_fork, &SharedDevice::after_fork_in_parent, [] {
      SharedDevice::after_fork_in_child();
      cm_after_fork();
    });
  });
}

void complain_of_abandoned() {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  complain(
      "a device that was opened, and had queue pairs, before fork() stays the parent's: open it again in process " +
      std::to_string(::getpid()) + ", or fork (daemon()) before it is opened");
}

void fill_abandoned_operations(abi::OpTable& ops) {
  for_each_operation(Refused{ops});
  ops.set("poll_cq", &poll_nothing);
  ops.set("post_send", &post_nothing<ibv_qp, ibv_send_wr>);
  ops.set("post_recv", &post_nothing<ibv_qp, ibv_recv_wr>);
  ops.set("post_srq_recv", &post_nothing<ibv_srq, ibv_recv_wr>);
  ops.set("dealloc_mw", &give_back<ibv_mw>);
  ops.set("dealloc_pd", &give_back<ibv_pd>);
  ops.set("dealloc_td", &give_back<ibv_td>);
  ops.set("dereg_mr", &give_back<abi::VerbsMr>);
  ops.set("destroy_ah", &give_back<ibv_ah>);
  ops.set("destroy_cq", &give_back_placed<ibv_cq>);
  ops.set("destroy_qp", &give_back_placed<ibv_qp>);
  ops.set("destroy_srq", &give_back_placed<ibv_srq>);
  ops.set("free_dm", &give_back<ibv_dm>);
  ops.set("free_context", &verbs::free_context);
}

bool has_abandoned_operations(const ibv_context* context) { return context->ops.poll_cq == &poll_nothing; }

}  // namespace brdma::provider
