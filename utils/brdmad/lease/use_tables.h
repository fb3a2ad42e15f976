// brdmad/lease/use_tables.h - tables of the leases' use of a device's limits (device/device_use.h). A process with a
// table may write and read all of it, so each user has its own. It lives as long as the user has leases, and outlives
// the worker (handover.h) and the daemon (vault.h).
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "device/device_use.h"
#include "io/system/file_descriptor.h"

namespace brdma::daemon {

// By user.
using KeptTables = std::map<std::uint32_t, io::FileDescriptor>;

class UseTableMapping {
 public:
  UseTableMapping() = default;
  static UseTableMapping create();                      // check valid()
  static UseTableMapping adopt(io::FileDescriptor fd);  // from an earlier worker; likewise
  ~UseTableMapping();
  UseTableMapping(UseTableMapping&& other) noexcept;
  UseTableMapping& operator=(UseTableMapping&& other) noexcept;

  [[nodiscard]] bool valid() const { return table_ != nullptr; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The row of a lease that begins for `device`, and of one that ended.
  void begin(std::uint32_t slot, std::string_view device);
  void end(std::uint32_t slot) { table_->rows[slot] = {}; }
  // The use that the lease reports.
  [[nodiscard]] DeviceUse::Sum of(std::uint32_t slot) const;

 private:
  io::FileDescriptor fd_;
  UseTable* table_ = nullptr;
};

}  // namespace brdma::daemon
