#include "statistics_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "control/statistics.h"
#include "io/sealed_memory.h"

namespace brdma::daemon {

namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Names of devices as numbers that are never 0 (FNV-1a).
std::uint64_t number_of(std::string_view device) {
  std::uint64_t number = 14'695'981'039'346'656'037u;
  for (const char c : device) number = (number ^ static_cast<unsigned char>(c)) * 1'099'511'628'211u;
  return number | 1;
}

}  // namespace

io::FileDescriptor make_shared_memory(const char* name, std::size_t bytes) {
  constexpr unsigned kNoExecSeal = 8;  // MFD_NOEXEC_SEAL: since Linux 6.3, where the system may demand it
  io::FileDescriptor fd{::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal)};
  if (!fd.valid()) fd.reset(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals) != 0) {
    return {};
  }
  return fd;
}

StatisticsMapping StatisticsMapping::create() {
  io::FileDescriptor fd = make_shared_memory("brdma-statistics", sizeof(io::StatisticsPage));
  return fd.valid() ? adopt(std::move(fd)) : StatisticsMapping{};
}

StatisticsMapping StatisticsMapping::adopt(io::FileDescriptor fd) {
  StatisticsMapping result;
  if (!io::is_sealed_memory(fd.get(), sizeof(io::StatisticsPage))) return result;
  void* memory = ::mmap(nullptr, sizeof(io::StatisticsPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return result;
  result.page_ = static_cast<io::StatisticsPage*>(memory);
  result.fd_ = std::move(fd);
  return result;
}

StatisticsMapping::~StatisticsMapping() {
  if (page_ != nullptr) ::munmap(page_, sizeof(io::StatisticsPage));
}

StatisticsMapping::StatisticsMapping(StatisticsMapping&& other) noexcept
    : fd_(std::move(other.fd_)), page_(std::exchange(other.page_, nullptr)) {}

StatisticsMapping& StatisticsMapping::operator=(StatisticsMapping&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(page_, other.page_);
  return *this;
}

Statistics StatisticsMapping::read() const { return valid() ? control::snapshot(page_->statistics) : Statistics{}; }

io::Gauges StatisticsMapping::gauges() const {
  if (!valid()) return {};
  const auto get = [](const std::uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_RELAXED); };
  const io::Gauges& live = page_->gauges;
  return {get(live.queue_pairs_max), get(live.state_bytes_max)};
}

std::uint64_t StatisticsMapping::take_events(std::vector<trace::EventRecord>& records) {
  if (!valid()) return 0;
  std::uint64_t read = __atomic_load_n(&page_->events.read, __ATOMIC_RELAXED);
  const std::uint64_t missing = trace::read_events(page_->events, read, records);
  __atomic_store_n(&page_->events.read, read, __ATOMIC_RELAXED);
  return missing;
}

UseTableMapping UseTableMapping::create() { return adopt(make_shared_memory("brdma-use", sizeof(UseTable))); }

UseTableMapping UseTableMapping::adopt(io::FileDescriptor fd) {
  UseTableMapping result;
  result.fd_ = std::move(fd);
  if (!result.fd_.valid()) return result;
  void* memory = ::mmap(nullptr, sizeof(UseTable), PROT_READ | PROT_WRITE, MAP_SHARED, result.fd_.get(), 0);
  if (memory != MAP_FAILED) result.table_ = static_cast<UseTable*>(memory);
  return result;
}

void UseTableMapping::begin(std::uint32_t slot, std::string_view device) {
  table_->rows[slot] = {number_of(device), 0, 0, 0};
  if (slot >= table_->rows_end) __atomic_store_n(&table_->rows_end, std::uint64_t{slot} + 1, __ATOMIC_RELAXED);
}

DeviceUse::Sum UseTableMapping::of_device(std::uint32_t slot) const {
  const DeviceUse use{*table_, slot};
  const UseRow& own = table_->rows[slot];
  const DeviceUse::Sum others = use.of_others();
  return {own.queue_pairs + others.queue_pairs, own.state_bytes + others.state_bytes};
}

}  // namespace brdma::daemon
