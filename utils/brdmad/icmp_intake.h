// brdmad/icmp_intake.h - ICMP source quench from the network: what switches say of packets that they dropped (spec 5;
// docs/wire.md#edn), handed to the process whose queue pair sent them. Needs the right to a raw socket (CAP_NET_RAW in
// the network namespace); without, nothing is heard, and switches may say it in control packets instead.
//
// Bitmap mode's packets name their sender: its slot is the low 13 bits of that number. Of standard packets only their
// receiver is known: all processes get such a message, and each engine looks whether it has such a connection; a token
// bucket bounds these. Another bounds what each source is listened to, for anybody can send ICMP. Nothing is believed
// here: the engine compares with what is outstanding (Engine::handle_icmp).
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
  std::uint64_t handed = 0;    // to a process; to several: once each
  std::uint64_t bad = 0;       // not about RoCE, damaged, or quoting too little
  std::uint64_t nobody = 0;    // the process is gone
  std::uint64_t unread = 0;    // the process does not read
  std::uint64_t limited = 0;   // too many: about standard packets, or from one source
};

class IcmpIntake {
 public:
  using Messages = std::vector<std::string>;  // each in hexadecimal, as io/management/management.h takes them
  enum class Delivery : std::uint8_t { kDone, kNobody, kUnread };
  struct Processes {
    std::function<Delivery(std::uint32_t slot, const Messages& messages)> deliver;
    std::function<std::vector<std::uint32_t>()> slots;  // of all of them
  };

  explicit IcmpIntake(Processes processes);

  [[nodiscard]] int fd() const { return socket_.get(); }  // -1: no right to one
  // Takes what waits in the socket, up to some dozen messages. True: there may be more.
  bool receive();
  // An ICMP message, without its IP header. Delivered with others by flush(). For tests, and receive().
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
  // Likewise of each source, found by its address; those that fall into one place share it.
  static constexpr std::size_t kSourcePlaces = 1024;
  std::array<Clock::time_point, kSourcePlaces> source_allowed_from_{};
  IcmpCounters counters_;
};

}  // namespace brdma::daemon
