#include "preload/view.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/config.h"
#include "device_files/device_catalog.h"
#include "device_files/device_tree.h"
#include "device_files/kernel_devices.h"
#include "io/netdev/netdev.h"
#include "plugin/libibverbs.h"
#include "preload/redirect.h"

namespace brdma::preload {
namespace {

struct View {
  std::mutex lock;
  std::uint64_t hash = 0;
  std::string complaint;  // the last one: each is printed once
  std::vector<std::string> order;
};

// Never destroyed: hooks run until the very end of the process. A replaced tree is kept too, and stays locked against
// removal: another thread may be between reading its name and opening a file.
View& view() {
  static auto* const instance = new View;
  return *instance;
}
std::atomic<const DeviceTree*> shown_tree{nullptr};
std::atomic<dev_t> shown_node{0};
std::atomic<dev_t> tree_device{0};
std::atomic<uid_t> tree_owner{0};
// Making the tree opens files itself: they are the kernel's, and a hook must never wait for itself.
thread_local bool making_tree = false;

void complain_once(const std::string& sentence) {
  if (view().complaint == sentence) return;
  view().complaint = sentence;
  provider::complain(sentence);
}

// The list of devices, in the order of the entries.
std::vector<std::string> order_of(const std::vector<TreeEntry>& entries) {
  constexpr std::string_view kList = "sys/class/infiniband_verbs/uverbs";
  std::vector<std::string> order;
  for (const TreeEntry& entry : entries) {
    const std::string name = entry.path.substr(entry.path.rfind('/') + 1);
    if (entry.path.starts_with(kList) && entry.path.ends_with("infiniband_verbs/" + name)) order.push_back(name);
  }
  return order;
}

// The kernel's own devices, as far as programs are to see them.
std::vector<TreeEntry> shown_kernel_devices() {
  return control::load_settings().settings.kernel_devices ? kernel_devices() : std::vector<TreeEntry>{};
}

// With view().lock held.
void make_tree(const std::vector<DeviceInfo>& devices) {
  struct stat node {};
  if (::stat(kNodeTarget, &node) != 0 || !S_ISCHR(node.st_mode)) {
    complain_once(std::string(kNodeTarget) +
                  " is missing, which stands in for the device nodes: mount a /dev that has it");
    return;
  }
  shown_node.store(node.st_rdev, std::memory_order_relaxed);
  const std::vector<TreeEntry> kernels = shown_kernel_devices();
  std::vector<TreeEntry> entries = device_files(devices, node.st_rdev, !kernels.empty());
  entries.insert(entries.end(), kernels.begin(), kernels.end());
  const std::uint64_t hash = hash_of(entries);
  const DeviceTree* const shown = shown_tree.load(std::memory_order_relaxed);
  if (shown != nullptr && hash == view().hash && shown->is_reachable()) return;
  auto tree = DeviceTree::open(entries);
  if (!tree) {
    complain_once(tree.reason());
    return;
  }
  view().hash = hash;
  view().order = order_of(entries);
  auto* const made = new DeviceTree(std::move(tree).value());
  struct stat root {};
  if (::syscall(SYS_fstat, made->fd(), &root) == 0) {
    tree_device.store(root.st_dev, std::memory_order_relaxed);
    tree_owner.store(root.st_uid, std::memory_order_relaxed);
  }
  shown_tree.store(made, std::memory_order_release);
}

std::size_t gid_count(const provider::DeviceList& devices) {
  std::size_t count = 0;
  for (const DeviceInfo& device : *devices) count += device.gids.size();
  return count;
}

// With view().lock held. The files and the list, which gives their number, change one after the other: every index of
// the list has its file at any time.
void show(const provider::DeviceList& devices) {
  if (gid_count(devices) >= gid_count(provider::current_devices())) {
    make_tree(*devices);
    provider::set_current_devices(devices);
  } else {
    provider::set_current_devices(devices);
    make_tree(*devices);
  }
}

const DeviceTree* tree_for(const Match& match) {
  if (making_tree) return nullptr;
  const bool listing = is_device_list(match);
  const DeviceTree* tree = shown_tree.load(std::memory_order_acquire);
  if (tree != nullptr && !listing) return tree;
  const int saved_errno = errno;
  making_tree = true;
  {
    const std::lock_guard guard(view().lock);
    const provider::DeviceList devices = listing ? provider::read_devices() : provider::current_devices();
    show(devices);
    if (listing && devices->empty() && shown_kernel_devices().empty())
      complain_once("no RDMA device: " + io::no_device_reason());
  }
  making_tree = false;
  errno = saved_errno;
  return shown_tree.load(std::memory_order_acquire);
}

// Whether the name behind the class is in the tree. The directory itself is.
bool has_entry(const DeviceTree& tree, const Match& match) {
  std::string entry{match.directory};
  entry.append("/").append(first_name(match));
  return ::syscall(SYS_faccessat, tree.fd(), entry.c_str(), F_OK) == 0;  // no hook: the name is the tree's
}

}  // namespace

void hide_tree(char* text) {
  const DeviceTree* const tree = shown_tree.load(std::memory_order_acquire);
  if (text == nullptr || tree == nullptr) return;
  const std::string_view path{text}, root{tree->root()};
  if (!path.starts_with(root) || !path.substr(root.size()).starts_with("/sys/")) return;
  std::memmove(text, text + root.size(), path.size() - root.size() + 1);
}

bool shows_kernel_devices() {
  const bool was_making = std::exchange(making_tree, true);
  const bool has = !shown_kernel_devices().empty();
  making_tree = was_making;
  return has;
}

void refresh() {
  making_tree = true;
  {
    const std::lock_guard guard(view().lock);
    const provider::DeviceList devices = provider::read_devices();
    const DeviceTree* const tree = shown_tree.load(std::memory_order_relaxed);
    if (tree != nullptr && tree->is_reachable()) {
      show(devices);
    } else {
      provider::set_current_devices(devices);
    }
  }
  making_tree = false;
}

bool is_of_tree(dev_t device, uid_t owner, nlink_t links) {
  if (shown_tree.load(std::memory_order_acquire) == nullptr) return false;
  const bool has_place = links == 0 || device == tree_device.load(std::memory_order_relaxed);
  return has_place && owner == tree_owner.load(std::memory_order_relaxed);
}

dev_t node_device() { return shown_node.load(std::memory_order_relaxed); }

std::vector<std::string> device_order() {
  const std::lock_guard guard(view().lock);
  return view().order;
}

ShownPath::ShownPath(const char* path, const void* caller) : shown_(path) {
  if (const auto match = match_path(path)) [[unlikely]]
    lead(*match, caller);
}

int ShownPath::open_within(int flags) const {
  return is_ours() ? static_cast<int>(::syscall(SYS_openat, tree_fd_, within_, flags & ~O_CREAT, 0)) : -1;
}

void ShownPath::lead(const Match& match, const void* caller) {
  const bool is_rdma_cm = preload::is_rdma_cm_node(match);
  if (is_rdma_cm && control::load_settings().settings.kernel_rdma_cm) return;
  const DeviceTree* tree = tree_for(match);
  if (tree != nullptr && is_of_devices(match) && !has_entry(*tree, match)) return;  // the kernel's own, or none
  auto text = std::make_unique<Text>();
  if (tree == nullptr || !join_path(tree->root(), match, text->bytes)) return;
  buffer_ = std::move(text);
  shown_ = buffer_->bytes;
  tree_fd_ = tree->fd();
  within_ = shown_ + tree->root().size() + 1;
  is_device_list_ = preload::is_device_list(match);
  is_uverbs_node_ = preload::is_uverbs_node(match);
  is_rdma_cm_node_ = is_rdma_cm;
  // libibverbs is about to look for drivers of the devices here.
  if (is_device_list_) provider::Libibverbs::register_with_caller(caller);
}

}  // namespace brdma::preload
