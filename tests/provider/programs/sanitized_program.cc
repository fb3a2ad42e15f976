// A program built with AddressSanitizer, which has a handler of SIGSEGV of its own: it unmaps registered memory during
// a WRITE, and then makes the same fault itself. Run by programs_test.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>

#include "provider/verbs_fixture.h"

int main() {
  using namespace brdma::test;  // a program, no header
  Side a = Side::make(), b = Side::make();
  connect(a, b);
  constexpr std::size_t kBytes = 65536;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ibv_mr* const mr = ibv_reg_mr(b.pd.get(), memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (mr == nullptr || ::mprotect(memory, kBytes, PROT_NONE) != 0) return 1;
  ibv_sge sge = a.sge(0, 4096);
  ibv_send_wr request = write_request(sge, b);
  request.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(memory), .rkey = mr->rkey};
  if (post_send(a, request) != 0) return 2;
  std::puts(ibv_wc_status_str(wait_completion(a.cq.get()).status));
  std::fflush(stdout);
  *static_cast<volatile char*>(memory) = 1;
  std::puts("went on");
  return 0;
}
