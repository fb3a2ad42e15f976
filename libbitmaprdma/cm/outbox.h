// cm/outbox.h - MADs that wait to be sent.
#pragma once

#include <array>
#include <deque>

#include "cm/connection.h"
#include "wire/cm/cm_messages.h"

namespace brdma::cm {

using MadArray = std::array<std::byte, wire::kMadSize>;

struct OutgoingMad {
  Endpoints endpoints;
  MadArray mad;
};

class Outbox {
 public:
  void push(const Endpoints& endpoints, const MadArray& mad) { mads_.push_back({endpoints, mad}); }
  void push(const Endpoints& endpoints, const wire::CmMad& mad) {
    mads_.push_back({endpoints, {}});
    wire::emit_cm(mad, mads_.back().mad);
  }
  // False: nothing to send.
  bool poll(OutgoingMad& out) {
    if (mads_.empty()) return false;
    out = mads_.front();
    mads_.pop_front();
    return true;
  }

 private:
  std::deque<OutgoingMad> mads_;
};

}  // namespace brdma::cm
