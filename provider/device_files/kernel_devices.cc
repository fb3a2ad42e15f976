#include "device_files/kernel_devices.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <memory>
#include <set>
#include <string_view>

#include "io/netdev/netdev.h"

namespace brdma::preload {
namespace {

using Kind = TreeEntry::Kind;

constexpr char kDevices[] = "sys/class/infiniband", kVerbs[] = "sys/class/infiniband_verbs",
               kMads[] = "sys/class/infiniband_mad", kNodes[] = "dev/infiniband";

// Sorted: the tree is named by the list.
std::set<std::string> names_in(const std::string& directory) {
  std::set<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> list{::opendir(directory.c_str()), ::closedir};
  if (list == nullptr) return names;
  while (const dirent* entry = ::readdir(list.get())) {
    if (entry->d_name[0] != '.') names.emplace(entry->d_name);
  }
  return names;
}

std::string first_line(const std::string& path) {
  std::array<char, 256> text{};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t got = ::read(fd, text.data(), text.size());
  ::close(fd);
  const std::string all(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  return all.substr(0, all.find('\n'));
}

// Entries of a class are links to "../../devices/...". By hand a program resolves the text of ours, which must not lead
// back to itself. Empty: no link.
constexpr std::string_view kUpToSys = "../../";
std::string link_target(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return {target.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

bool is_our_device(const std::string& name) { return name.starts_with(io::kDevicePrefix); }

TreeEntry link_to(const std::string& root, const std::string& path) {
  const std::string target = link_target(root + "/" + path);
  const bool leads_up = target.starts_with(kUpToSys);
  return {Kind::kSymlink, path, root + (leads_up ? "/sys/" + target.substr(kUpToSys.size()) : "/" + path), 0};
}

}  // namespace

std::vector<TreeEntry> kernel_devices(const std::string& root) {
  std::vector<TreeEntry> entries;
  const auto show = [&](const char* directory, const std::string& name) {
    entries.push_back(link_to(root, directory + ("/" + name)));
  };
  for (const std::string& name : names_in(root + "/" + kDevices)) {
    if (!is_our_device(name)) show(kDevices, name);
  }
  if (entries.empty()) return entries;
  std::set<std::string> ours{"rdma_cm"};
  for (const std::string& name : names_in(root + "/" + kVerbs)) {
    if (!name.starts_with("uverbs")) continue;  // abi_version is the same for all
    if (is_our_device(first_line(root + "/" + kVerbs + "/" + name + "/ibdev"))) {
      ours.insert(name);
    } else {
      show(kVerbs, name);
    }
  }
  const auto mads = names_in(root + "/" + kMads);
  if (!mads.empty()) entries.push_back({Kind::kDirectory, kMads, "", 0});
  for (const std::string& name : mads) show(kMads, name);
  for (const std::string& name : names_in(root + "/" + kNodes)) {
    if (!ours.contains(name)) show(kNodes, name);
  }
  return entries;
}

}  // namespace brdma::preload
