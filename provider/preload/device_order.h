// preload/device_order.h - the order in which a directory stream gives the devices. A file system gives names in an
// order of its own, another one on each machine and with each tree, and libibverbs lists devices in that order: the
// stream of the list of devices is therefore read at once and given out in the order of view.h.
#pragma once

#include <dirent.h>

#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace brdma::preload {

class OrderedStreams {
 public:
  // From now on the stream gives `first` in this order, then all else that it has by name. Takes what `read`
  // (readdir64) gives.
  void add(DIR* stream, std::span<const std::string> first, dirent64* (*read)(DIR*));
  void remove(DIR* stream);
  // False: not one of ours. At the end `entry` is null.
  bool next(DIR* stream, dirent64*& entry);
  void rewind(DIR* stream);

 private:
  struct Stream {
    DIR* stream = nullptr;
    std::vector<dirent64> entries;
    std::size_t next = 0;
  };
  Stream* find(DIR* stream);
  std::atomic<std::size_t> count_{0};  // of all others: one load
  std::mutex mutex_;
  std::vector<Stream> streams_;
};

}  // namespace brdma::preload
