#include "preload/redirect.h"

#include <array>
#include <cstring>

namespace brdma::preload {
namespace {

// Skips the slashes (at least one) and "." components before the next name.
const char* to_next_name(const char* path) {
  if (*path != '/') return nullptr;
  for (;;) {
    while (*path == '/') ++path;
    if (path[0] == '.' && path[1] == '/') {
      ++path;
      continue;
    }
    return path;
  }
}

// The position after `name` if the path continues with exactly that component.
const char* past_component(const char* path, std::string_view name) {
  path = to_next_name(path);
  if (path == nullptr || std::strncmp(path, name.data(), name.size()) != 0) return nullptr;
  path += name.size();
  return *path == '/' || *path == '\0' ? path : nullptr;
}

struct Class {
  std::string_view name, directory, devices;
};
constexpr std::array kClasses{
    Class{"infiniband", "sys/class/infiniband", "sys/devices/virtual/infiniband"},
    Class{"infiniband_verbs", "sys/class/infiniband_verbs", "sys/devices/virtual/infiniband_verbs"},
    Class{"infiniband_mad", "sys/class/infiniband_mad", ""},
    Class{"infiniband_ucma", "sys/class/infiniband_ucma", ""},
};
constexpr std::string_view kDeviceNodes = "dev/infiniband";
constexpr std::string_view kDeviceList = "sys/class/infiniband_verbs";

std::optional<Match> match_class(const char* names, std::string_view Class::*directory) {
  for (const Class& one : kClasses) {
    const char* const rest = past_component(names, one.name);
    if (rest != nullptr && !(one.*directory).empty()) return Match{one.*directory, rest};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Match> match_path(const char* path) {
  if (path == nullptr || path[0] != '/') return std::nullopt;
  if (const char* below = past_component(path, "dev")) {
    if (const char* rest = past_component(below, "infiniband")) return Match{kDeviceNodes, rest};
    return std::nullopt;
  }
  const char* const below = past_component(path, "sys");
  if (below == nullptr) return std::nullopt;
  if (const char* names = past_component(below, "class")) return match_class(names, &Class::directory);
  if (const char* all = past_component(below, "devices")) {
    if (const char* names = past_component(all, "virtual")) return match_class(names, &Class::devices);
  }
  return std::nullopt;
}

bool is_of_devices(const Match& match) { return match.directory.starts_with("sys/devices"); }

std::string_view first_name(const Match& match) {
  const std::size_t begin = match.rest.find_first_not_of('/');
  if (begin == std::string_view::npos) return {};
  return match.rest.substr(begin, match.rest.find('/', begin) - begin);
}

bool is_uverbs_node(const Match& match) {
  const std::size_t name = match.rest.find_first_not_of('/');
  return match.directory == kDeviceNodes && name != std::string_view::npos &&
         match.rest.substr(name).starts_with("uverbs");
}

bool is_rdma_cm_node(const Match& match) {
  const std::size_t name = match.rest.find_first_not_of('/');
  return match.directory == kDeviceNodes && name != std::string_view::npos && match.rest.substr(name) == "rdma_cm";
}

bool is_device_list(const Match& match) {
  return match.directory == kDeviceList && match.rest.find_first_not_of('/') == std::string_view::npos;
}

bool join_path(std::string_view root, const Match& match, char (&out)[PATH_MAX]) {
  if (root.size() + 1 + match.directory.size() + match.rest.size() >= sizeof out) return false;
  char* end = out;
  end += root.copy(end, root.size());
  *end++ = '/';
  end += match.directory.copy(end, match.directory.size());
  end += match.rest.copy(end, match.rest.size());
  *end = '\0';
  return true;
}

}  // namespace brdma::preload
