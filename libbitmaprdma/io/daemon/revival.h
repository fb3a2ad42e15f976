// io/daemon/revival.h - a program's part in the restart of brdmad after it was killed, holder and worker at once, for
// example with the container, the service or the job that started it. No lease is lost (docs/explanation/daemon.md):
// the vault keeps the state, and a program that has the vault starts a daemon that adopts it. Packets continue
// meanwhile.
//
// Driven by the lease's control thread:
//   poll(lifeline())       readable: brdmad is dead; daemon_died()
//   a descriptor came      on the lease's connection: the next brdmad's lifeline; daemon_lives()
//   act() at deadline()    starts a daemon unless one is starting; gives up after kGiveUpAfter without any: ends the
//                          lease's connection, which then looks as if brdmad had closed it
// Programs act one after the other, in the order of their slots, so that a hundred don't start a hundred daemons; two
// that act together do no harm (docs/explanation/daemon.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "device/device_use.h"
#include "io/daemon/daemon_connection.h"
#include "io/system/file_descriptor.h"

namespace brdma::io {

class Revival {
 public:
  static constexpr std::chrono::seconds kGiveUpAfter{10};

  Revival() = default;
  // `use` outlives this; null: the order is unknown.
  Revival(FileDescriptor lifeline, FileDescriptor vault, int control_fd, const UseTable* use, std::uint32_t slot)
      : lifeline_(std::move(lifeline)), vault_(std::move(vault)), control_fd_(control_fd), use_(use), slot_(slot) {}

  [[nodiscard]] int lifeline() const { return lifeline_.get(); }  // -1: nothing to wait for
  void daemon_died();
  void daemon_lives(FileDescriptor lifeline);
  [[nodiscard]] std::optional<Deadline> deadline() const { return next_; }
  void act();

 private:
  void start();
  void give_up();
  [[nodiscard]] int programs_before() const;

  FileDescriptor lifeline_, vault_;
  int control_fd_ = -1;
  const UseTable* use_ = nullptr;
  std::uint32_t slot_ = 0;
  std::optional<Deadline> next_;  // none: brdmad lives
  Deadline give_up_at_{};
  int starts_ = 0;
};

}  // namespace brdma::io
