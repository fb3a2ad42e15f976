// sim/trace_recorder.h - records the reports of a world's engines, in order, and prints them as text. Bounded: beyond
// kRecordsMax the oldest half is dropped (full_trace() says so).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "trace/events.h"

namespace brdma::sim {

inline constexpr std::size_t kRecordsMax = 1u << 20;

class TraceRecorder {
 public:
  struct Record {
    Instant when;
    std::uint32_t qpn = 0;
    std::uint16_t host = 0;
    trace::Event event;
  };

  // Names of the hosts in a story: "tx", "rx".
  std::uint16_t add_host(std::string name);
  void record(std::uint16_t host, Instant when, std::uint32_t qpn, const trace::Event& event);
  void clear() { records_.clear(); }

  [[nodiscard]] const std::vector<Record>& records() const { return records_; }
  // Every record: "12.001us rx qp=258 gap_promoted start=1003 length=1 cause=depth".
  [[nodiscard]] std::string full_trace() const;
  // The text that a test compares: records that any of `filters` selects, without times and queue pairs, after an empty
  // line:
  //   "rx gap_promoted start=1003 length=1 cause=depth\n"
  // A filter is the start of an event's name, and after a colon a number that one of its fields must have: "gap",
  // "entry:1003".
  [[nodiscard]] std::string story(std::initializer_list<std::string_view> filters) const;

 private:
  std::vector<std::string> hosts_;
  std::vector<Record> records_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace brdma::sim
