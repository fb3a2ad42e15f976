// brdmad/use_tables.h - the tables of what leases have of a device's limits (device/device_use.h). Whoever has one may
// write all of it and read all of it, so each user has one of his own: it is there as long as he has leases, and
// outlives the worker (handover.h) and the daemon (vault.h) with them.
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
  static UseTableMapping adopt(io::FileDescriptor fd);  // one that an earlier worker made; likewise
  ~UseTableMapping();
  UseTableMapping(UseTableMapping&& other) noexcept;
  UseTableMapping& operator=(UseTableMapping&& other) noexcept;

  [[nodiscard]] bool valid() const { return table_ != nullptr; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // The row of a lease that begins for `device`, and of one that ended.
  void begin(std::uint32_t slot, std::string_view device);
  void end(std::uint32_t slot) { table_->rows[slot] = {}; }
  // What the lease says that it has.
  [[nodiscard]] DeviceUse::Sum of(std::uint32_t slot) const;

 private:
  io::FileDescriptor fd_;
  UseTable* table_ = nullptr;
};

}  // namespace brdma::daemon
