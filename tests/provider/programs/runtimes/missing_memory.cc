// A library for programs in Java and Go: one round of WRITEs, some to unmapped memory. The names are those of Java's
// native methods, and serve both.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::size_t kBytes = 65536;

// Registered at `side`, then unmapped.
class Gone {
 public:
  explicit Gone(Side& side)
      : at_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        mr_(ibv_reg_mr(side.pd.get(), at_, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) {
    ::mprotect(at_, kBytes, PROT_NONE);
  }
  ~Gone() {
    mr_.reset();
    ::munmap(at_, kBytes);
  }
  Gone(const Gone&) = delete;
  Gone& operator=(const Gone&) = delete;
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(at_); }
  [[nodiscard]] const ibv_mr& mr() const { return *mr_; }

 private:
  void* at_;
  Owned<ibv_mr> mr_;
};

ibv_wc_status result_of(Side& side, ibv_send_wr request) {
  if (post_send(side, request) != 0) return IBV_WC_GENERAL_ERR;
  return wait_completion(side.cq.get()).status;
}

bool one_that_is_there() {
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  ibv_sge sge = a.sge(0, 4096);
  return result_of(a, write_request(sge, b)) == IBV_WC_SUCCESS;
}

bool missing_target() {
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  const Gone gone{b};
  ibv_sge sge = a.sge(0, 4096);
  ibv_send_wr request = write_request(sge, b);
  request.wr.rdma = {.remote_addr = gone.address(), .rkey = gone.mr().rkey};
  return result_of(a, request) == IBV_WC_REM_ACCESS_ERR;
}

bool missing_source() {
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  const Gone gone{a};
  ibv_sge sge{.addr = gone.address(), .length = 4096, .lkey = gone.mr().lkey};
  return result_of(a, write_request(sge, b)) == IBV_WC_LOC_PROT_ERR;
}

}  // namespace
}  // namespace brdma::test

// How many of three requests ended as they should.
extern "C" __attribute__((visibility("default"))) int Java_MissingMemory_round(void*, void*) {
  using namespace brdma::test;
  return static_cast<int>(one_that_is_there()) + static_cast<int>(missing_target()) +
         static_cast<int>(missing_source());
}
