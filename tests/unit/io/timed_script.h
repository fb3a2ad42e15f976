// Transcripts in virtual time: rows of a time, an event, and the decision that it must have.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/units.h"

namespace brdma::io {

inline constexpr Instant kBegin = Instant{} + 1_s;

// `Script` derives from it and holds what the events act on.
template <class Script>
struct TimedScript {
  using Event = std::function<std::string(Script&, Instant)>;
  struct Row {
    Duration at;  // after kBegin
    Event event;
    std::string decision;
  };
  void run(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      EXPECT_EQ(row.event(static_cast<Script&>(*this), kBegin + row.at), row.decision) << row.at.ns() << " ns";
    }
  }
};

}  // namespace brdma::io
