#include "connections/stopped_process.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>

namespace brdma::daemon {
namespace {

std::string contents_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>{in}, {}};
}

// The letter behind the name, which may contain blanks and parentheses; 0: the thread has ended.
char state_of(const std::string& stat) {
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

// A cgroup's path as a mount shows it whose root is this cgroup; none: it is not below that one.
std::optional<std::string_view> path_below(std::string_view root, std::string_view path) {
  if (root == "/") return path;
  if (!path.starts_with(root)) return std::nullopt;
  const std::string_view below = path.substr(root.size());
  if (!below.empty() && !below.starts_with('/')) return std::nullopt;
  return below;
}

}  // namespace

bool is_stopped(std::uint32_t pid) {
  if (pid == 0) return false;
  bool any = false;
  std::error_code gone;
  std::filesystem::directory_iterator thread("/proc/" + std::to_string(pid) + "/task", gone);
  for (; !gone && thread != std::filesystem::directory_iterator{}; thread.increment(gone)) {
    const char state = state_of(contents_of(thread->path() / "stat"));
    if (state == '\0' || state == 'Z' || state == 'X') continue;
    if (state != 'T' && state != 't') return false;
    any = true;
  }
  return any && !gone;
}

Freezers::Freezers() : Freezers(contents_of("/proc/self/mountinfo")) {}

// ID PARENT DEVICE ROOT POINT OPTIONS [TAGS] - TYPE SOURCE SUPER_OPTIONS
Freezers::Freezers(std::string_view mountinfo) {
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string skipped, type, source, options;
    Mount mount;
    before >> skipped >> skipped >> skipped >> mount.root >> mount.point;
    after >> type >> source >> options;
    mount.unified = type == "cgroup2";
    const bool freezes = type == "cgroup" && ("," + options + ",").find(",freezer,") != std::string::npos;
    if (mount.unified || freezes) mounts_.push_back(std::move(mount));
  }
}

// HIERARCHY:CONTROLLERS:PATH, of v2 0::PATH. A path outside of this process's cgroup namespace begins "/..".
std::string Freezers::state_file(std::string_view cgroup_line) const {
  const std::size_t first = cgroup_line.find(':');
  const std::size_t second = first == std::string_view::npos ? first : cgroup_line.find(':', first + 1);
  if (second == std::string_view::npos) return {};
  const std::string controllers = "," + std::string(cgroup_line.substr(first + 1, second - first - 1)) + ",";
  const std::string_view path = cgroup_line.substr(second + 1);
  const bool unified = controllers == ",,";
  if ((!unified && controllers.find(",freezer,") == std::string::npos) || path.starts_with("/..")) return {};
  for (const Mount& mount : mounts_) {
    if (mount.unified != unified) continue;
    const auto below = path_below(mount.root, path);
    if (!below) continue;
    const std::string place = mount.point + (*below == "/" ? "" : std::string(*below));
    return place + (unified ? "/cgroup.events" : "/freezer.state");
  }
  return {};
}

bool Freezers::has_frozen(std::uint32_t pid) const {
  if (pid == 0 || mounts_.empty()) return false;
  std::ifstream cgroups("/proc/" + std::to_string(pid) + "/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    const std::string file = state_file(line);
    if (file.empty()) continue;
    const std::string state = contents_of(file);
    if (state.find("frozen 1\n") != std::string::npos || state.starts_with("FROZEN")) return true;
  }
  return false;
}

}  // namespace brdma::daemon
