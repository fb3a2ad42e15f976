// sim/processes/local_processes.h - processes of a simulated machine that read each other's memory; in fact they are
// one process. A list replaces the kernel: does the process exist (a crashed host does not), and may it be read?
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "base/local_memory.h"

namespace brdma::sim {

class LocalProcesses {
 public:
  bool readable = true;  // false: as where the kernel does not permit it
  bool faulty = false;   // true: fetched memory can be read only by its own process
  [[nodiscard]] std::uint64_t fetches() const { return fetches_; }

 private:
  friend class LocalProcess;
  std::set<std::uint32_t> alive_;
  std::uint32_t next_pid_ = 1000;
  std::uint64_t fetches_ = 0;
};

class LocalProcess final : public LocalMemory {
 public:
  explicit LocalProcess(LocalProcesses& machine);
  ~LocalProcess() override;
  LocalProcess(const LocalProcess&) = delete;
  LocalProcess& operator=(const LocalProcess&) = delete;

  [[nodiscard]] LocalClaim self() const override { return {.pid = pid_}; }
  [[nodiscard]] bool is_here(const IpAddress& peer) const override;
  [[nodiscard]] LocalState examine(const LocalClaim& claim, std::uint16_t source_port) override;
  [[nodiscard]] FetchResult fetch(const LocalClaim& peer, std::span<const LocalPiece> from,
                                  std::span<const Slice> to) override;

 private:
  LocalProcesses& machine_;
  std::uint32_t pid_;
};

}  // namespace brdma::sim
