#include "device_files/device_order.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace brdma::preload {

void OrderedStreams::add(DIR* stream, std::span<const std::string> first, dirent64* (*read)(DIR*)) {
  std::vector<dirent64> entries;
  while (const dirent64* const entry = read(stream)) entries.push_back(*entry);
  const auto place = [&](const dirent64& entry) {
    const std::string_view name = entry.d_name;
    return std::pair{std::ranges::find(first, name) - first.begin(), name};
  };
  std::ranges::sort(entries, {}, place);
  const std::lock_guard lock(mutex_);
  streams_.push_back({stream, std::move(entries)});
  ++count_;
}

void OrderedStreams::remove(DIR* stream) {
  if (count_ == 0) return;
  const std::lock_guard lock(mutex_);
  count_ -= std::erase_if(streams_, [&](const Stream& one) { return one.stream == stream; });
}

// With the mutex held.
OrderedStreams::Stream* OrderedStreams::find(DIR* stream) {
  const auto found = std::ranges::find(streams_, stream, &Stream::stream);
  return found == streams_.end() ? nullptr : &*found;
}

bool OrderedStreams::next(DIR* stream, dirent64*& entry) {
  if (count_ == 0) return false;
  const std::lock_guard lock(mutex_);
  Stream* const one = find(stream);
  if (one == nullptr) return false;
  entry = one->next == one->entries.size() ? nullptr : &one->entries[one->next++];
  return true;
}

void OrderedStreams::rewind(DIR* stream) {
  if (count_ == 0) return;
  const std::lock_guard lock(mutex_);
  if (Stream* const one = find(stream)) one->next = 0;
}

}  // namespace brdma::preload
