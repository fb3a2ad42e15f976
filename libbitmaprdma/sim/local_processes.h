// sim/local_processes.h - the processes of a simulated machine, which read each other's memory: they are all one
// process. What io asks of the kernel is asked of a list here: is there such a process (a host that has crashed is none
// any more), and does it let itself be read.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "base/local_memory.h"

namespace brdma::sim {

class LocalProcesses {
 public:
  bool readable = true;  // false: as where the kernel does not permit it
  bool faulty = false;   // true: what is fetched is memory that nobody but its process can read
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
