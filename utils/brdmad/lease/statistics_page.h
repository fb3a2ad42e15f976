// brdmad/lease/statistics_page.h - memory shared with clients: the page of a client's counters and events, mapped to
// read. Only the position of the last event read is written.
#pragma once

#include <cstdint>
#include <vector>

#include "io/daemon/lease_protocol.h"
#include "io/system/file_descriptor.h"

namespace brdma::daemon {

// Zeroed memory to share, sealed so that no process can shrink it. Not valid(): errno.
[[nodiscard]] io::FileDescriptor make_shared_memory(const char* name, std::size_t bytes);

class StatisticsMapping {
 public:
  StatisticsMapping() = default;
  // Memory of its own. Check valid().
  static StatisticsMapping create();
  // One that an earlier worker made.
  static StatisticsMapping adopt(io::FileDescriptor fd);
  ~StatisticsMapping();
  StatisticsMapping(StatisticsMapping&& other) noexcept;
  StatisticsMapping& operator=(StatisticsMapping&& other) noexcept;

  [[nodiscard]] bool valid() const { return page_ != nullptr; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Statistics read() const;
  [[nodiscard]] io::Gauges gauges() const;
  // Takes the events that were not taken yet. Returns how many were overwritten before.
  std::uint64_t take_events(std::vector<trace::EventRecord>& records);

 private:
  io::FileDescriptor fd_;
  io::StatisticsPage* page_ = nullptr;
};

}  // namespace brdma::daemon
