// brdmad/network/icmp_intake.h - ICMP source quench from the network: a switch reports packets that it dropped (DN-9;
// docs/reference/wire.md#edn). The daemon hands it to the process whose queue pair sent them. Needs the right to a raw
// socket (CAP_NET_RAW in the network namespace); without it, nothing is received, and switches may report in control
// packets instead.
//
// Bitmap-mode packets carry their sender's number, whose low 13 bits are the slot. A standard packet names only its
// receiver: all processes get such a message, and each engine looks whether it has that connection. A token bucket
// bounds these. Another bounds the messages taken from each source, because anybody can send ICMP. Nothing is trusted
// here: the engine compares with its outstanding packets (Engine::handle_icmp).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "io/system/file_descriptor.h"

namespace brdma::daemon {

struct IcmpCounters {
  std::uint64_t received = 0;  // source quenches
  std::uint64_t handed = 0;    // to a process; counted once for each process
  std::uint64_t bad = 0;       // not about RoCE, damaged, or quoting too little
  std::uint64_t nobody = 0;    // the process is gone
  std::uint64_t unread = 0;    // the process does not read
  std::uint64_t limited = 0;   // over a limit: about standard packets, or from one source
};

class IcmpIntake {
 public:
  using Messages = std::vector<std::string>;  // each in hexadecimal, as io/management/management.h takes them
  enum class Delivery : std::uint8_t { kDone, kNobody, kUnread };
  struct Processes {
    std::function<Delivery(std::uint32_t slot, const Messages& messages)> deliver;
    std::function<std::vector<std::uint32_t>()> slots;  // of all processes
  };

  explicit IcmpIntake(Processes processes);

  [[nodiscard]] int fd() const { return socket_.get(); }  // -1: no right to a raw socket
  // Takes waiting datagrams from the socket, up to a few dozen. True: there may be more.
  bool receive();
  // An ICMP message, without its IP header. flush() delivers it with others. Called by receive() and by tests.
  void take(ConstBytes message, std::uint32_t source = 0);
  void flush();
  static constexpr int kSourceBurst = 512;  // from one source; then one in kSourceEach
  static constexpr std::chrono::microseconds kSourceEach{100};
  [[nodiscard]] const IcmpCounters& counters() const { return counters_; }

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] bool may_ask_all();
  [[nodiscard]] bool may_speak(std::uint32_t source);

  Processes processes_;
  io::FileDescriptor socket_;
  std::map<std::uint32_t, Messages> waiting_;  // by slot
  Clock::time_point allowed_from_{};           // token bucket of messages for all
  // One bucket per source, found by a hash of its address; sources with the same hash share it.
  static constexpr std::size_t kSourcePlaces = 1024;
  std::array<Clock::time_point, kSourcePlaces> source_allowed_from_{};
  IcmpCounters counters_;
};

}  // namespace brdma::daemon
