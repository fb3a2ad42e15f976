// device_files/device_files.h - the kernel's files for our devices, as a list; nothing is written here. Readers of each
// file: docs/reference/provider.md. Every file is short and ends in one newline, as libibverbs' buffers are small; each
// GID index has its type file, or queries of the whole table fail.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bitmaprdma/context.h"

namespace brdma::preload {

struct TreeEntry {
  enum class Kind : std::uint8_t { kDirectory, kFile, kSymlink };
  Kind kind = Kind::kFile;
  std::string path;     // relative to the tree's root; parents come first
  std::string content;  // of a file; the target of a symlink
  // Of a directory, 0 = any. libibverbs takes a device for another one when its directory's time has changed, so that
  // time is derived from the device.
  std::int64_t mtime_seconds = 0;
  bool writable = false;  // a file of mode 644 instead of 444
};

// A node that opens for everyone as a character device and answers every command with an error: ioctl ENOTTY, write
// ENOSPC. (/dev/null and /dev/zero would swallow commands, which then look served.)
inline constexpr char kNodeTarget[] = "/dev/full";

// The kernel gives its uverbs nodes numbers below this one; ours begin at it where the kernel has devices.
inline constexpr std::uint32_t kKernelNodesMax = 1024;

// `node` is the device number of kNodeTarget: libibverbs compares it with the opened node's. `beside_kernel`: the
// kernel has devices too (device_files/kernel_devices.h), so ours have numbers that it does not use.
[[nodiscard]] std::vector<TreeEntry> device_files(std::span<const DeviceInfo> devices, dev_t node,
                                                  bool beside_kernel = false);

// Same list, same number: names the tree.
[[nodiscard]] std::uint64_t hash_of(std::span<const TreeEntry> entries);

}  // namespace brdma::preload
