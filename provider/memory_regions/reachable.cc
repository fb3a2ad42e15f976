#include "memory_regions/reachable.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace brdma::provider {
namespace {

// linux/fs.h since 6.11: a mapping of /proc/self/maps by address.
struct MappingQuery {
  std::uint64_t size = sizeof(MappingQuery), query_flags = 0, query_address = 0;
  std::uint64_t start = 0, end = 0, flags = 0, page_size = 0, offset = 0, inode = 0;
  std::uint32_t device_major = 0, device_minor = 0, name_size = 0, build_id_size = 0;
  std::uint64_t name_address = 0, build_id_address = 0;
};
static_assert(sizeof(MappingQuery) == 104);
constexpr unsigned long kQueryMapping = _IOWR('f', 17, MappingQuery);
constexpr std::uint64_t kReadable = 1, kWritable = 2;  // of `flags`

// linux/mman.h since 5.14: makes pages present as if accessed, or returns the error.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;

struct Range {
  std::uintptr_t begin = 0, end = 0;  // of whole pages
};

std::uintptr_t page_bytes() {
  static const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

enum class Answer : std::uint8_t { kNo, kYes, kCannotBeAsked };

// By the kernel's list of mappings.
Answer protection_allows(const Range& range, Access access) {
  const auto maps = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (maps < 0) return Answer::kCannotBeAsked;
  const std::uint64_t needed = access == Access::kWrite ? kWritable : kReadable;
  Answer answer = Answer::kYes;
  for (std::uintptr_t at = range.begin; at < range.end && answer == Answer::kYes;) {
    MappingQuery query{.query_address = at};
    if (::syscall(SYS_ioctl, maps, kQueryMapping, &query) != 0) {
      answer = errno == ENOENT ? Answer::kNo : Answer::kCannotBeAsked;
    } else {
      if ((query.flags & needed) != needed) answer = Answer::kNo;
      at = static_cast<std::uintptr_t>(query.end);
    }
  }
  ::syscall(SYS_close, maps);
  return answer;
}

bool is_mapped(const Range& range) {
  std::array<unsigned char, 4096> resident;  // mincore's result, one byte a page; ignored
  for (std::uintptr_t at = range.begin; at < range.end;) {
    const std::uintptr_t step = std::min<std::uintptr_t>(range.end - at, resident.size() * page_bytes());
    if (::mincore(reinterpret_cast<void*>(at), step, resident.data()) != 0 && errno == ENOMEM) return false;
    at += step;
  }
  return true;
}

bool can_populate() {
  static const bool can = [] {
    alignas(64) static char own;
    void* const page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(&own) & ~(page_bytes() - 1));
    return ::madvise(page, page_bytes(), kPopulateWrite) == 0;
  }();
  return can;
}

// Checks the first page, the last, and pages at even distances between, `count` in total.
bool samples_allow(const Range& range, Access access, std::size_t count) {
  const std::size_t pages = (range.end - range.begin) / page_bytes(), looks = std::min(pages, count);
  const int advice = access == Access::kWrite ? kPopulateWrite : kPopulateRead;
  for (std::size_t i = 0; i < looks; ++i) {
    const std::uintptr_t at = range.begin + (looks == 1 ? 0 : (pages - 1) * i / (looks - 1)) * page_bytes();
    if (::madvise(reinterpret_cast<void*>(at), page_bytes(), advice) == 0) continue;
    if (errno == EFAULT || errno == ENOMEM || errno == EINVAL) return false;
  }
  return true;
}

bool find_out(const Range& range, Access access, Pages pages) {
  constexpr std::size_t kEnds = 2, kSamples = 32;
  const Answer listed = protection_allows(range, access);
  if (listed == Answer::kNo) return false;
  if (listed == Answer::kCannotBeAsked && !is_mapped(range)) return false;
  if (pages == Pages::kAsTheyAre || !can_populate()) return true;
  return samples_allow(range, access, listed == Answer::kYes ? kEnds : kSamples);
}

}  // namespace

bool is_reachable(const void* address, std::size_t length, Access access, Pages pages) {
  const std::uintptr_t page = page_bytes(), begin = reinterpret_cast<std::uintptr_t>(address);
  if (length == 0) return true;
  if (begin + (length - 1) < begin || begin + (length - 1) > ~page) return false;
  const int before = errno;
  const bool found = find_out({begin & ~(page - 1), ((begin + (length - 1)) | (page - 1)) + 1}, access, pages);
  errno = before;
  return found;
}

}  // namespace brdma::provider
