#include "lease/use_tables.h"

#include <sys/mman.h>

#include <utility>

#include "io/system/sealed_memory.h"
#include "lease/statistics_page.h"

namespace brdma::daemon {
namespace {

// Names of devices as numbers that are never 0 (FNV-1a).
std::uint64_t number_of(std::string_view device) {
  std::uint64_t number = 14'695'981'039'346'656'037u;
  for (const char c : device) number = (number ^ static_cast<unsigned char>(c)) * 1'099'511'628'211u;
  return number | 1;
}

}  // namespace

UseTableMapping UseTableMapping::create() {
  io::FileDescriptor fd = make_shared_memory("brdma-use", sizeof(UseTable));
  return fd.valid() ? adopt(std::move(fd)) : UseTableMapping{};
}

UseTableMapping UseTableMapping::adopt(io::FileDescriptor fd) {
  UseTableMapping result;
  if (!io::is_sealed_memory(fd.get(), sizeof(UseTable))) return result;
  void* const memory = ::mmap(nullptr, sizeof(UseTable), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return result;
  result.table_ = static_cast<UseTable*>(memory);
  result.fd_ = std::move(fd);
  return result;
}

UseTableMapping::~UseTableMapping() {
  if (table_ != nullptr) ::munmap(table_, sizeof(UseTable));
}

UseTableMapping::UseTableMapping(UseTableMapping&& other) noexcept
    : fd_(std::move(other.fd_)), table_(std::exchange(other.table_, nullptr)) {}

UseTableMapping& UseTableMapping::operator=(UseTableMapping&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(table_, other.table_);
  return *this;
}

void UseTableMapping::begin(std::uint32_t slot, std::string_view device) {
  table_->rows[slot] = {number_of(device), 0, 0, 0};
  if (slot >= table_->rows_end) __atomic_store_n(&table_->rows_end, std::uint64_t{slot} + 1, __ATOMIC_RELAXED);
}

DeviceUse::Sum UseTableMapping::of(std::uint32_t slot) const {
  const UseRow& row = table_->rows[slot];
  return {__atomic_load_n(&row.queue_pairs, __ATOMIC_RELAXED), __atomic_load_n(&row.state_bytes, __ATOMIC_RELAXED)};
}

}  // namespace brdma::daemon
