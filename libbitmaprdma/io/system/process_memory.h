// io/system/process_memory.h - reads the memory of other processes of this host by process_vm_readv()
// (docs/explanation/local.md). Its state does not change: any thread may use it, one instance serves all contexts.
#pragma once

#include "base/local_memory.h"

namespace brdma::io {

class ProcessMemory final : public LocalMemory {
 public:
  ProcessMemory();

  [[nodiscard]] LocalClaim self() const override;
  [[nodiscard]] bool is_here(const IpAddress& peer) const override;
  // Checks the owner of the process, and of the socket that the claim came from. Both must be this user: then the
  // claimant could read that process as well as we.
  [[nodiscard]] LocalState examine(const LocalClaim& claim, std::uint16_t source_port) override;
  [[nodiscard]] FetchResult fetch(const LocalClaim& peer, std::span<const LocalPiece> from,
                                  std::span<const Slice> to) override;

 private:
  std::uint64_t pid_namespace_ = 0;
};

[[nodiscard]] ProcessMemory& process_memory();

}  // namespace brdma::io
