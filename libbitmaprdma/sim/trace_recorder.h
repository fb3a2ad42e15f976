// sim/trace_recorder.h - keeps what the engines of a world report, in order, and tells it as text.
// Bounded: beyond kRecordsMax the oldest half is forgotten (full_trace() says so).
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

  // Names are what a story calls the hosts: "tx", "rx".
  std::uint16_t add_host(std::string name);
  void record(std::uint16_t host, Instant when, std::uint32_t qpn, const trace::Event& event);
  void clear() { records_.clear(); }

  [[nodiscard]] const std::vector<Record>& records() const { return records_; }
  // Every record: "12.001us rx qp=258 gap_promoted start=1003 length=1 cause=depth".
  [[nodiscard]] std::string full_trace() const;
  // What a test compares: records that any of `filters` selects, without times and queue pairs, after an empty line:
  //   "rx gap_promoted start=1003 length=1 cause=depth\n"
  // A filter is the start of an event's name, and behind a colon a number that one of its fields must have: "gap",
  // "entry:1003".
  [[nodiscard]] std::string story(std::initializer_list<std::string_view> filters) const;

 private:
  std::vector<std::string> hosts_;
  std::vector<Record> records_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace brdma::sim
