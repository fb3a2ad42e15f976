// qp/negotiate/local_negotiator.h - private: agreement of two queue pairs of one host on local transfer by reference
// (qp/state/local_path.h), in their CAPS.
#pragma once

#include <cstdint>
#include <memory>

#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/state/local_path.h"
#include "wire/control.h"

namespace brdma::qp {

// A view of the queue pair's parts, made where it is needed.
class LocalNegotiator {
 public:
  // What the peer's claim leaves to send.
  enum class Follows : std::uint8_t {
    kNothing,
    kCaps,     // our report, as far as CAPS may still be sent
    kNewCaps,  // likewise; the count of CAPS restarts
  };

  LocalNegotiator(Environment& env, Identity& id, std::unique_ptr<LocalPath>& local)
      : env_(env), id_(id), local_(local) {}

  void begin() const;
  void end() const;
  // Makes our claim, if the peer has an address of this host.
  void find_out() const;
  // The claim and reports of ours, if there are any.
  void fill(wire::Caps& caps) const;
  // Precondition: the CAPS of a proven peer. `source_port`: of the packet.
  [[nodiscard]] Follows on_caps(const wire::Caps& caps, std::uint16_t source_port) const;

 private:
  void examine(const LocalClaim& claim, std::uint16_t source_port) const;

  Environment& env_;
  Identity& id_;
  std::unique_ptr<LocalPath>& local_;
};

}  // namespace brdma::qp
