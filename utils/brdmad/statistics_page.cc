#include "statistics_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "control/statistics.h"

namespace brdma::daemon {

namespace {

io::FileDescriptor make_memory() {
  constexpr unsigned kNoExecSeal = 8;  // MFD_NOEXEC_SEAL: since Linux 6.3, where the system may demand it
  constexpr const char* kName = "brdma-statistics";
  io::FileDescriptor fd{::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal)};
  if (!fd.valid()) fd.reset(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return fd;
}

}  // namespace

StatisticsMapping StatisticsMapping::create() {
  io::FileDescriptor fd = make_memory();
  if (!fd.valid() || ::ftruncate(fd.get(), sizeof(io::StatisticsPage)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return {};
  }
  return adopt(std::move(fd));
}

StatisticsMapping StatisticsMapping::adopt(io::FileDescriptor fd) {
  StatisticsMapping result;
  void* memory = ::mmap(nullptr, sizeof(io::StatisticsPage), PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return result;
  result.page_ = static_cast<const io::StatisticsPage*>(memory);
  result.fd_ = std::move(fd);
  return result;
}

StatisticsMapping::~StatisticsMapping() {
  if (page_ != nullptr) ::munmap(const_cast<io::StatisticsPage*>(page_), sizeof(io::StatisticsPage));
}

StatisticsMapping::StatisticsMapping(StatisticsMapping&& other) noexcept
    : fd_(std::move(other.fd_)), page_(std::exchange(other.page_, nullptr)) {}

StatisticsMapping& StatisticsMapping::operator=(StatisticsMapping&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(page_, other.page_);
  return *this;
}

Statistics StatisticsMapping::read() const { return valid() ? control::snapshot(page_->statistics) : Statistics{}; }

}  // namespace brdma::daemon
