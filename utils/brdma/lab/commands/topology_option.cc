#include "lab/commands/topology_option.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>

#include "programs.h"
#include "topology/topology_file.h"
#include "words.h"

namespace brdma::lab {
namespace {

std::vector<std::filesystem::path> folders() {
  return {std::filesystem::path{own_directory()} / "../share/bitmaprdma/topologies", BRDMA_INSTALL_TOPOLOGIES};
}

std::string path_of(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(".toml")) return name;
  std::error_code error;
  for (const auto& folder : folders()) {
    const auto path = folder / (name + ".toml");
    if (std::filesystem::exists(path, error)) return path.string();
  }
  std::string known;
  for (const std::string& each : topology_names()) known += (known.empty() ? "" : ", ") + each;
  throw UsageError("--topology '" + name + "': expected a file (with a '/' or '.toml' in its name), or one of " +
                   known);
}

}  // namespace

std::vector<std::string> topology_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& folder : folders()) {
    for (const auto& entry : std::filesystem::directory_iterator{folder, error}) {
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void take_topology(LabPlan& plan, const std::string& text, const std::string& name) {
  if (text.empty()) return;
  plan.topology = std::make_shared<const fabric::Topology>(topology::parse_topology(text, name));
  plan.topology_text = text;
  plan.hosts = static_cast<std::uint32_t>(plan.topology->hosts.size());
}

void load_topology(LabPlan& plan, const std::string& name) {
  const std::string path = path_of(name);
  std::ifstream file{path};
  if (!file) throw UsageError(path + ": " + std::strerror(errno));
  const std::string text(std::istreambuf_iterator<char>{file}, std::istreambuf_iterator<char>{});
  if (text.empty()) throw UsageError(path + ": empty");
  try {
    take_topology(plan, text, path);
  } catch (const topology::TopologyError& error) {
    throw UsageError(error.what());
  }
  for (const auto& option : plan.topology->network) plan.network.try_emplace(option.name, option.value);
  plan.network.try_emplace("link-state", "on");
}

}  // namespace brdma::lab
