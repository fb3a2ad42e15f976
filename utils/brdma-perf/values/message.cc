#include "values/message.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace brdma::perf {
namespace {

constexpr std::size_t kCrcAt = 8, kBodyAt = 12, kCrcFrom = 16;
constexpr std::uint64_t kPageFactor = 0x9E3779B97F4A7C15u;

std::uint32_t crc_of(std::span<const std::byte> page) {
  auto* const from = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(page.data() + kBodyAt));
  const std::uint32_t crc = ~crc32_iscsi(from, static_cast<int>(page.size() - kBodyAt), ~0u);
  return crc != 0 ? crc : ~0u;  // 0 means none
}

std::uint64_t stamp(std::uint64_t number, std::size_t page) { return number ^ (page * kPageFactor); }

// f(page, index) for each page, until it returns false.
template <class Bytes, class Function>
void each_page(std::span<Bytes> message, Function f) {
  for (std::size_t at = 0, index = 0; at < message.size(); at += kPageBytes, ++index) {
    if (!f(message.subspan(at, std::min(kPageBytes, message.size() - at)), index)) return;
  }
}

Flaw check_page(std::span<const std::byte> page, std::size_t index, std::uint64_t number, bool with_crc, bool& by_crc) {
  const std::uint64_t expected = stamp(number, index);
  if (std::memcmp(page.data(), &expected, std::min(page.size(), sizeof expected)) != 0) {
    return index == 0 ? Flaw::kNumber : Flaw::kPage;
  }
  if (!with_crc || page.size() < kCrcFrom) return Flaw::kNone;
  std::uint32_t crc = 0;
  std::memcpy(&crc, page.data() + kCrcAt, sizeof crc);
  by_crc = true;
  return crc == crc_of(page) ? Flaw::kNone : Flaw::kCrc;
}

}  // namespace

void fill_pattern(std::span<std::byte> memory, std::uint64_t seed) {
  Random random{seed};
  for (std::size_t at = 0; at < memory.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(memory.data() + at, &word, std::min(sizeof word, memory.size() - at));
  }
}

void seal(std::span<std::byte> message, std::uint64_t number, bool with_crc) {
  each_page(message, [&](std::span<std::byte> page, std::size_t index) {
    const std::uint64_t first = stamp(number, index);
    std::memcpy(page.data(), &first, std::min(page.size(), sizeof first));
    if (page.size() < kCrcFrom) return true;
    const std::uint32_t crc = with_crc ? crc_of(page) : 0;
    std::memcpy(page.data() + kCrcAt, &crc, sizeof crc);
    return true;
  });
}

Checked check(std::span<const std::byte> message, std::uint64_t number, bool whole, bool with_crc) {
  Checked checked;
  each_page(message, [&](std::span<const std::byte> page, std::size_t index) {
    const bool complete = whole || page.size() == kPageBytes;
    checked.flaw = check_page(page, index, number, with_crc && complete, checked.by_crc);
    return checked.flaw == Flaw::kNone;
  });
  return checked;
}

const char* flaw_name(Flaw flaw) {
  switch (flaw) {
    case Flaw::kNone:
      return "none";
    case Flaw::kNumber:
      return "another message's number";
    case Flaw::kPage:
      return "a page of another message";
    case Flaw::kCrc:
      return "a wrong CRC";
  }
  return "";
}

}  // namespace brdma::perf
