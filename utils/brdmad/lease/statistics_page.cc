#include "lease/statistics_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "control/statistics.h"
#include "io/system/sealed_memory.h"

namespace brdma::daemon {

namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

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

}  // namespace brdma::daemon
