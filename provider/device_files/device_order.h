// device_files/device_order.h - the order of devices in a directory stream. libibverbs lists devices in the file
// system's order, which differs by machine and tree. So the stream of the list of devices is read at once and returned
// in the order of view.h.
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
  // From now on the stream returns `first` in this order, then its other entries. Consumes the entries of `read`
  // (readdir64).
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
  std::atomic<std::size_t> count_{0};  // for all other streams: one load
  std::mutex mutex_;
  std::vector<Stream> streams_;
};

}  // namespace brdma::preload
