// brdmad/statistics_page.h - the memory in which a client counts, mapped to read.
#pragma once

#include "io/file_descriptor.h"
#include "io/lease_protocol.h"

namespace brdma::daemon {

class StatisticsMapping {
 public:
  StatisticsMapping() = default;
  // Zeroed memory of its own, sealed so that a client can't shrink it under our feet. Check valid().
  static StatisticsMapping create();
  // One that an earlier worker made.
  static StatisticsMapping adopt(io::FileDescriptor fd);
  ~StatisticsMapping();
  StatisticsMapping(StatisticsMapping&& other) noexcept;
  StatisticsMapping& operator=(StatisticsMapping&& other) noexcept;

  [[nodiscard]] bool valid() const { return page_ != nullptr; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Statistics read() const;

 private:
  io::FileDescriptor fd_;
  const io::StatisticsPage* page_ = nullptr;
};

}  // namespace brdma::daemon
