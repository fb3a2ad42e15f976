#include "namespace.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmaprdma/context.h"
#include "control/config.h"
#include "device_files/device_files.h"
#include "device_files/device_tree.h"
#include "device_files/kernel_devices.h"
#include "io/system/file_descriptor.h"
#include "rights/rights.h"

namespace brdma {
namespace {

using preload::TreeEntry;

[[noreturn]] void fail(const std::string& what) {
  throw NamespaceRefused("cannot make the namespace: " + what + ": " + std::strerror(errno));
}

std::string text_of_file(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

bool try_write(const std::string& path, const std::string& text) {
  std::ofstream file{path};
  errno = 0;
  file << text << std::flush;
  return static_cast<bool>(file);
}

void write_file(const std::string& path, const std::string& text) {
  if (!try_write(path, text)) fail(path);
}

[[noreturn]] void refuse(int error, const std::string& cure) {
  throw NamespaceRefused("user namespaces are forbidden here (" + std::string{std::strerror(error)} + "): " + cure +
                         "; or run without --namespace, which needs none");
}

void enter_user_namespace() {
  const std::string uid = std::to_string(geteuid()), gid = std::to_string(getegid());
  const bool can_map = can_map_itself(own_capabilities(), geteuid() == 0);
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) refuse(errno, cure_for_no_namespaces(errno));
  write_file("/proc/self/setgroups", "deny");
  if (!try_write("/proc/self/uid_map", uid + " " + uid + " 1")) refuse(errno, cure_for_no_map(can_map));
  write_file("/proc/self/gid_map", gid + " " + gid + " 1");
}

void enter_mount_namespace() {
  const bool privileged = unshare(CLONE_NEWNS) == 0;
  if (!privileged) enter_user_namespace();
  // Later mounts outside are visible here too, but not the reverse.
  if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0) return;
  privileged ? fail("mount /") : refuse(errno, cure_for_no_namespaces(errno));
}

// A directory with additions: the original entries are bound where they were, and ours are added. A directory that
// exists in both has the entries of both, or ours alone; any other entry of ours replaces the original.
class Cover {
 public:
  // `additions`: relative to `directory`, parents first. `merged`: directories that exist in both keep their original
  // entries; else they have ours alone.
  Cover(std::string directory, std::vector<TreeEntry> additions, bool merged = true)
      : directory_(std::move(directory)), additions_(std::move(additions)), merged_(merged) {
    for (const TreeEntry& entry : additions_) ours_.emplace(entry.path, entry.kind);
  }

  void put() {
    const io::FileDescriptor original{open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!original.valid()) fail(directory_);
    if (mount("brdma", directory_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") != 0) fail("mount " + directory_);
    // Through a descriptor: where the library is loaded in this very program, it shows its own tree under the names.
    const io::FileDescriptor cover{open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!cover.valid()) fail(directory_);
    base_ = "/proc/self/fd/" + std::to_string(cover.get());
    keep(original.get(), "");
    std::erase_if(additions_, [this](const TreeEntry& entry) { return made_.contains(entry.path); });
    errno = preload::write_tree(base_, additions_);
    if (errno != 0) fail(directory_);
    // Adding a file here fails; otherwise it would be lost.
    if (mount(nullptr, directory_.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr) !=
        0) {
      fail("mount " + directory_);
    }
  }

 private:
  // `original`: the directory `inside` as it was; "" or "name/".
  void keep(int original, const std::string& inside) {
    const std::unique_ptr<DIR, int (*)(DIR*)> list{fdopendir(dup(original)), closedir};
    if (list == nullptr) fail(directory_ + "/" + inside);
    while (const dirent* entry = readdir(list.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") keep_entry(original, name, inside + name);
    }
  }

  void keep_entry(int original, const std::string& name, const std::string& inside) {
    struct stat status {};
    if (fstatat(original, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;  // gone in between
    const std::string target = base_ + "/" + inside;
    const auto ours = ours_.find(inside);
    if (ours != ours_.end()) {
      if (ours->second != TreeEntry::Kind::kDirectory || !S_ISDIR(status.st_mode)) return;
      const io::FileDescriptor below{openat(original, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
      if (!below.valid() || mkdir(target.c_str(), 0755) != 0) fail(target);
      made_.insert(inside);
      if (merged_) keep(below.get(), inside + "/");
    } else if (S_ISLNK(status.st_mode)) {
      std::array<char, PATH_MAX> link{};
      if (readlinkat(original, name.c_str(), link.data(), link.size() - 1) < 0 ||
          symlink(link.data(), target.c_str()) != 0) {
        fail(target);
      }
    } else {
      bind(original, name, target, S_ISDIR(status.st_mode));
    }
  }

  static void bind(int original, const std::string& name, const std::string& target, bool is_directory) {
    const io::FileDescriptor place{is_directory ? -1
                                                : open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444)};
    if (is_directory ? mkdir(target.c_str(), 0755) != 0 : !place.valid()) fail(target);
    const std::string source = "/proc/self/fd/" + std::to_string(original) + "/" + name;
    if (mount(source.c_str(), target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0) return;
    if (errno != ENOENT) fail("mount " + target);
    is_directory ? rmdir(target.c_str()) : unlink(target.c_str());  // gone in between
  }

  std::string directory_;
  std::string base_;  // the cover itself
  std::vector<TreeEntry> additions_;
  bool merged_;
  std::map<std::string, TreeEntry::Kind> ours_;
  std::set<std::string> made_;  // directories that exist in both
};

// The `entries` below `directory`, relative to it.
std::vector<TreeEntry> below(const std::vector<TreeEntry>& entries, const std::string& directory) {
  std::vector<TreeEntry> found;
  for (TreeEntry entry : entries) {
    if (!entry.path.starts_with(directory + "/")) continue;
    entry.path.erase(0, directory.size() + 1);
    found.push_back(std::move(entry));
  }
  return found;
}

// The loader splits this list at blanks and colons: a library below such a path gets a name in /etc itself.
std::vector<TreeEntry> loader_list(const std::string& library) {
  std::vector<TreeEntry> entries;
  std::string name = library;
  if (library.find_first_of(": \t\n") != std::string::npos) {
    entries.push_back({TreeEntry::Kind::kSymlink, "libbitmaprdma.so", library, 0});
    name = "/etc/libbitmaprdma.so";
  }
  std::string content = text_of_file("/etc/ld.so.preload");
  if (!content.empty() && content.back() != '\n') content += '\n';
  entries.push_back({TreeEntry::Kind::kFile, "ld.so.preload", content + name + "\n", 0});
  return entries;
}

}  // namespace

void enter_namespace(const std::string& library) {
  struct stat node {};
  if (stat(preload::kNodeTarget, &node) != 0) fail(preload::kNodeTarget);
  // The kernel's devices, if they are shown, stay where they are; only their numbers matter here.
  const control::Settings settings = control::load_settings().settings;
  const bool beside_kernel = settings.kernel_devices && !preload::kernel_devices().empty();
  std::vector<TreeEntry> files = preload::device_files(list_devices(), node.st_rdev, beside_kernel);
  if (settings.kernel_rdma_cm) {
    std::erase_if(files, [](const TreeEntry& entry) { return entry.path == "dev/infiniband/rdma_cm"; });
  }
  std::vector<TreeEntry> loader = loader_list(library);
  enter_mount_namespace();
  Cover("/etc", std::move(loader)).put();
  Cover("/dev", below(files, "dev"), settings.kernel_devices).put();
  Cover("/sys/class", below(files, "sys/class"), settings.kernel_devices).put();
  Cover("/sys/devices/virtual", below(files, "sys/devices/virtual"), settings.kernel_devices).put();
}

}  // namespace brdma
