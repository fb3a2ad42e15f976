// models/switch/mmu.h - which packets a switch's shared memory takes, and when it pauses a neighbour (PFC).
// The switch asks admit() for each packet that it is to queue, and calls left() when one has been sent. The classes
// count; they make no frames. A result `pause` or `resume` means: send that PFC frame out of the packet's ingress port
// now, for its class. A pause holds until the resume (time quanta are not counted down). Control packets (PFC, CNP, and
// ACKs if these have their own class) are not asked about: they have strict priority and are never paused. Bytes
// throughout. Thread-safety: one thread at a time. Errors: a packet that leaves and was not admitted is our own fault
// (check).
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace brdma::models {

// Where a packet came from and goes to.
struct Passage {
  std::uint32_t ingress = 0;  // ports, from 0
  std::uint32_t egress = 0;
  std::uint32_t priority = 0;  // class, from 0
  std::uint32_t bytes = 0;
};

struct Admission {
  bool accepted = false;
  bool pause = false;
};

class Mmu {
 public:
  virtual ~Mmu() = default;
  // Counts the packet if it is accepted.
  virtual Admission admit(const Passage& packet) = 0;
  // True: resume.
  virtual bool left(const Passage& packet) = 0;
  [[nodiscard]] virtual std::uint64_t used() const = 0;  // of the whole memory
};

// Headroom of one lossless class of a port, as the simulators compute it from its link.
[[nodiscard]] std::uint64_t headroom_hpcc(Bandwidth rate, Duration one_way);                         // 3 x rate x delay
[[nodiscard]] std::uint64_t headroom_conweave(Bandwidth rate, Duration one_way, std::uint32_t mtu);  // 2 x, and 2 MTU
[[nodiscard]] std::uint64_t headroom_reverie(Bandwidth rate, Duration one_way, std::uint32_t payload);

// A threshold is (free bytes) >> shift. HPCC: 3 (1/8) at the hosts' rate, one less per doubling of the port's, 0 at
// least.
[[nodiscard]] unsigned shift_hpcc(Bandwidth port, Bandwidth host);

// PFC as in HPCC's simulator. Source: its switch-mmu.cc, described in this project's words.
//   A class of an ingress port has a reserve, then shares up to T, then fills its headroom.
//   T = (buffer - all headroom - all reserves - shared bytes used) >> shift
//   dropped: neither headroom nor T has room.  pause: headroom used, or shared >= T
//   resume: headroom empty, and shared is 0 or shared + resume_offset <= T
class HpccMmu final : public Mmu {
 public:
  struct Port {
    unsigned shift = 3;
    std::uint64_t headroom = 0;  // of each class
  };
  struct Settings {
    std::uint64_t buffer = 32'000'000;
    std::uint64_t reserve = 4096;  // of each class of each port
    std::uint64_t resume_offset = 3072;
    std::uint32_t priorities = 1;  // lossless classes
    std::vector<Port> ports;
  };
  // Headroom and reserves must fit into the buffer (check).
  explicit HpccMmu(const Settings& settings);
  Admission admit(const Passage& packet) override;
  bool left(const Passage& packet) override;
  [[nodiscard]] std::uint64_t used() const override { return used_; }
  [[nodiscard]] std::uint64_t threshold(std::uint32_t port) const;

 private:
  struct Queue {
    std::uint64_t bytes = 0;  // in reserve and shared memory
    std::uint64_t headroom = 0;
    bool paused = false;
  };
  Queue& queue(const Passage& packet) { return queues_[packet.ingress * settings_.priorities + packet.priority]; }
  [[nodiscard]] std::uint64_t shared(const Queue& queue) const;

  Settings settings_;
  std::vector<Queue> queues_;
  std::uint64_t shareable_;  // buffer less headroom and reserves
  std::uint64_t shared_ = 0;
  std::uint64_t used_ = 0;
};

// PFC as ns-3 works model SONiC's buffers. Source: the ABM and Reverie simulators' switch-mmu.cc, in our words.
//   T = alpha (ingress pool - all reserves - shared bytes used). A class over T takes headroom with every packet, until
//   its headroom is empty again; pause: headroom used; dropped: it is used up, or the pools are full resume: headroom
//   empty, and the class has less than xon, or bytes + xon_offset <= T Lossy classes: dropped over T at ingress (beyond
//   the reserve), or over alpha (lossy egress pool - its use) at egress.
class SonicMmu final : public Mmu {
 public:
  struct Settings {
    std::uint64_t buffer = 24ull << 20;
    std::uint64_t ingress_pool = 18ull << 20;
    std::uint64_t lossy_egress_pool = 14ull << 20;
    std::uint64_t reserve = 0;   // of each class of each port
    std::uint64_t headroom = 0;  // of each lossless class of each port
    double alpha_ingress = 1;
    double alpha_egress = 1;
    std::uint64_t xon = 1248;
    std::uint64_t xon_offset = 2496;
    std::uint32_t ports = 0;
    std::uint32_t priorities = 1;
    std::uint32_t lossless = 1;  // priorities below this one
  };
  explicit SonicMmu(const Settings& settings);
  Admission admit(const Passage& packet) override;
  bool left(const Passage& packet) override;
  [[nodiscard]] std::uint64_t used() const override { return used_; }
  [[nodiscard]] std::uint64_t ingress_threshold() const;
  [[nodiscard]] std::uint64_t egress_threshold() const;

 private:
  struct Queue {
    std::uint64_t ingress = 0;  // headroom included
    std::uint64_t headroom = 0;
    std::uint64_t egress = 0;
    bool paused = false;
  };
  [[nodiscard]] std::size_t index(std::uint32_t port, std::uint32_t priority) const {
    return std::size_t{port} * settings_.priorities + priority;
  }
  [[nodiscard]] bool is_lossless(const Passage& packet) const { return packet.priority < settings_.lossless; }
  [[nodiscard]] bool fits_lossless(const Queue& queue, std::uint32_t bytes) const;
  [[nodiscard]] bool fits_lossy(const Passage& packet) const;
  void change_ingress(Queue& queue, std::uint64_t bytes);

  Settings settings_;
  std::vector<Queue> queues_;
  std::uint64_t headroom_total_;
  std::uint64_t headroom_used_ = 0;
  std::uint64_t reserved_used_ = 0;
  std::uint64_t lossy_used_ = 0;
  std::uint64_t used_ = 0;
};

// Without PFC: a dynamic threshold of the egress queue (Choudhury and Hahne), as ConWeave's switch with PFC off.
//   dropped: queue + packet > (buffer - used) >> shift;  shift 0 is alpha 1: one queue alone gets half of the memory
class LossyMmu final : public Mmu {
 public:
  struct Settings {
    std::uint64_t buffer = 9'000'000;
    unsigned shift = 0;
    std::uint32_t ports = 0;
    std::uint32_t priorities = 1;
  };
  explicit LossyMmu(const Settings& settings)
      : settings_(settings), queues_(std::size_t{settings.ports} * settings.priorities) {}
  Admission admit(const Passage& packet) override;
  bool left(const Passage& packet) override;
  [[nodiscard]] std::uint64_t used() const override { return used_; }

 private:
  std::uint64_t& queue(const Passage& packet) {
    return queues_[packet.egress * settings_.priorities + packet.priority];
  }

  Settings settings_;
  std::vector<std::uint64_t> queues_;
  std::uint64_t used_ = 0;
};

}  // namespace brdma::models
