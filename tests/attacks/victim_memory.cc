#include "victim_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "offer.h"

namespace brdma::attacks {

VictimMemory::VictimMemory(std::size_t bytes) : size_(bytes), expected_(bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  bytes_ = static_cast<std::uint8_t*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) expected_[i] = kSecret[i % kSecret.size()];
  std::memcpy(bytes_, expected_.data(), bytes);
}

VictimMemory::~VictimMemory() { ::munmap(bytes_, size_); }

VictimMemory::Area VictimMemory::take(std::size_t size, bool secret) {
  const Area area{used_, size};
  used_ += (size + kGuard - 1) / kGuard * kGuard + kGuard;
  if (used_ > size_) throw std::runtime_error("too little memory");
  if (!secret) {
    for (std::size_t i = 0; i < size; ++i)
      bytes_[area.offset + i] = expected_[area.offset + i] = static_cast<std::uint8_t>((i * 37 + i / 251) & 0x7F);
  }
  return area;
}

void VictimMemory::close(Area area) {
  open_.erase(area.offset);
  std::memcpy(bytes_ + area.offset, expected_.data() + area.offset, area.size);
}

std::size_t VictimMemory::first_difference(std::size_t from, std::size_t to) const {
  if (from >= to || std::memcmp(bytes_ + from, expected_.data() + from, to - from) == 0) return to;
  return static_cast<std::size_t>(std::mismatch(bytes_ + from, bytes_ + to, expected_.data() + from).first - bytes_);
}

std::string VictimMemory::violation() const {
  std::size_t from = 0;
  const auto look = [&](std::size_t to) -> std::string {
    const std::size_t found = first_difference(from, to);
    if (found >= to) return {};
    char text[96];
    std::snprintf(text, sizeof text, "byte %zu of the victim's memory is %02x, not %02x", found, bytes_[found],
                  expected_[found]);
    return text;
  };
  for (const auto& [offset, size] : open_) {
    if (std::string found = look(offset); !found.empty()) return found;
    from = offset + size;
  }
  return look(size_);
}

}  // namespace brdma::attacks
