// qp/turn/output_order.h - which output of a queue pair has its turn next. Output that found no room in a batch is
// first in the next one: no starvation.
#pragma once

#include <cstdint>

namespace brdma::qp {

class OutputOrder {
 public:
  // On several paths a batch carries one of these, and pending kinds take turns.
  enum class Kind : std::uint8_t {
    kOrdered,  // output that must arrive in order: feedback, NAKs; with one path everything
    kRequests,
    kResponses,
  };

  // --- several paths ---
  [[nodiscard]] Kind kind() const { return kind_; }
  // The next pending kind is that of the batch; if none is pending, kOrdered. `pending(kind)`: it has output.
  template <class Pending>
  Kind advance(const Pending& pending) {
    constexpr unsigned kKinds = 3;
    auto next = static_cast<unsigned>(kind_);
    for (unsigned i = 0; i < kKinds; ++i) {
      next = (next + 1) % kKinds;
      if (pending(static_cast<Kind>(next))) return kind_ = static_cast<Kind>(next);
    }
    return kind_ = Kind::kOrdered;
  }
  // The kind of the batch could not leave: anything else may.
  void give_up_kind() { kind_ = Kind::kOrdered; }

  // --- one path: who is first in the next batch ---
  [[nodiscard]] bool any_first() const { return control_first_ || requests_first_; }
  [[nodiscard]] bool control_first() const { return control_first_; }
  [[nodiscard]] bool requests_first() const { return requests_first_; }
  void set_control_first(bool first) { control_first_ = first; }
  void set_requests_first(bool first) { requests_first_ = first; }
  void none_first() { control_first_ = requests_first_ = false; }

 private:
  bool requests_first_ = false;  // the last batch was full before our requests had their turn
  Kind kind_ = Kind::kOrdered;
  bool control_first_ = false;  // likewise feedback and acknowledgements
};

}  // namespace brdma::qp
