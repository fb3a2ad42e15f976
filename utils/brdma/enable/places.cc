#include "enable/places.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "enable/preload_list.h"
#include "programs.h"

namespace brdma::enable {
namespace {

constexpr std::string_view kLibraryName = "libbitmaprdma.so";
constexpr std::string_view kEnvironment = "/etc/environment.d/60-bitmaprdma.conf";
constexpr std::string_view kManager = "/etc/systemd/system.conf.d/60-bitmaprdma.conf";
constexpr std::string_view kProfile = "/etc/profile.d/bitmaprdma.sh";
constexpr std::string_view kDriverFolder = "/etc/libibverbs.d";
constexpr std::string_view kDriver = "/etc/libibverbs.d/bitmaprdma.driver";

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// environment.d(5): appended to what is set before, by another file.
std::string environment_text(const std::string& library) {
  return "LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}" + library + "\n";
}

std::string service_text(const std::string& present, const std::string& library) {
  const std::string value = present.empty() ? library : present + ":" + library;
  return "[Service]\nEnvironment=\"LD_PRELOAD=" + value + "\"\n";
}

std::string manager_text(const std::string& library) {
  return "[Manager]\nDefaultEnvironment=\"LD_PRELOAD=" + library + "\"\n";
}

std::string profile_text(const std::string& library) {
  return "case \":${LD_PRELOAD-}:\" in\n  *:" + library +
         ":*) ;;\n  *) export LD_PRELOAD=\"${LD_PRELOAD:+$LD_PRELOAD:}" + library + "\" ;;\nesac\n";
}

std::string unit_path(const Target& target) {
  const std::string file = "/" + target.unit + ".d/" + kDropIn;
  if (target.scope == Scope::kService) return "/etc/systemd/system" + file;
  return home_of_user().configuration + "/systemd/user" + file;
}

std::string user_path() { return home_of_user().configuration + "/environment.d/" + kDropIn; }

// The plugin's name as a driver file has it: libibverbs appends "-rdmavN.so".
std::string plugin_beside(const Tree& tree, const std::string& library) {
  const std::string folder = folder_of(library);
  const std::string installed = folder + "/libibverbs";
  const std::vector<std::string> names = tree.list(installed);
  const bool there = std::any_of(names.begin(), names.end(),
                                 [](const std::string& name) { return name.starts_with("libbitmaprdma-rdmav"); });
  return (there ? installed : folder) + "/libbitmaprdma";
}

// Others may have one: a package does.
bool has_driver_of_others(const Tree& tree) {
  for (const std::string& name : tree.list(std::string{kDriverFolder})) {
    const std::string path = std::string{kDriverFolder} + "/" + name;
    const std::string text = tree.read(path).value_or("");
    if (!is_own(text) && text.find("libbitmaprdma") != std::string::npos) return true;
  }
  return false;
}

bool kernel_has_rdma(const Tree& tree) { return tree.exists("/sys/class/infiniband"); }

// Blanks and colons divide LD_PRELOAD, and the others mean something in one of the files.
void check_name(const std::string& library) {
  if (library.find_first_of(" \t\n:;\"'\\%$#`*?[]") == std::string::npos) return;
  throw EnableError{"the path " + library + " has a character that LD_PRELOAD or a configuration file cannot hold: " +
                    "install the library elsewhere (cmake --install build --prefix /usr/local)"};
}

void check_readable(const Tree& tree, const std::string& library) {
  struct stat status {};
  for (std::string path = library; !path.empty(); path = folder_of(path)) {
    if (stat(tree.shown(path).c_str(), &status) != 0) throw file_error(tree.shown(path), errno);
    const mode_t needed = S_ISDIR(status.st_mode) ? S_IXOTH : S_IROTH;
    if ((status.st_mode & needed) != 0) continue;
    throw EnableError{tree.shown(path) +
                      " is not open to all users, whose programs would not start without an error: " +
                      "install the library (cmake --install build --prefix /usr/local), or use --user"};
  }
}

// By its plain name, not by that of a release which the next one replaces.
std::string own_library() {
  const std::string found = find_library();
  const std::string plain = folder_of(found) + "/" + std::string{kLibraryName};
  struct stat one {
  }, other{};
  const bool same = stat(plain.c_str(), &one) == 0 && stat(found.c_str(), &other) == 0 && one.st_ino == other.st_ino;
  return same ? plain : found;
}

std::string library_of_other_tree(const Tree& tree) {
  std::vector<std::string> candidates;
  try {
    const std::string own = own_library();
    if (own.starts_with(tree.root() + "/")) return own.substr(tree.root().size());
    candidates.push_back(own);
  } catch (const ProgramMissing&) {  // a program without its library can still prepare a tree that has one
  }
  candidates.push_back(std::string{BRDMA_INSTALL_LIBDIR "/"} + std::string{kLibraryName});
  for (const char* prefix : {"/usr/lib", "/usr/lib64", "/usr/local/lib"}) {
    candidates.push_back(std::string{prefix} + "/" + std::string{kLibraryName});
    for (const std::string& name : tree.list(prefix)) {
      if (name.find("-linux-gnu") == std::string::npos) continue;
      candidates.push_back(std::string{prefix} + "/" + name + "/" + std::string{kLibraryName});
    }
  }
  for (const std::string& path : candidates) {
    if (tree.exists(path)) return path;
  }
  throw EnableError{"no " + std::string{kLibraryName} + " in " + tree.root() +
                    ": install this library there first, or name its place by --library PATH"};
}

void add_if_there(const Tree& tree, std::vector<Place>& places, Place place) {
  if (tree.exists(place.path)) places.push_back(std::move(place));
}

void add_folder(const Tree& tree, std::vector<Place>& places, const std::string& scope, const std::string& folder) {
  for (const std::string& name : tree.list(folder)) places.push_back({scope, "", folder + "/" + name});
}

void add_services(const Tree& tree, std::vector<Place>& places, const std::string& scope, const std::string& folder) {
  for (const std::string& name : tree.list(folder)) {
    if (!name.ends_with(".service.d")) continue;
    for (const std::string& file : tree.list(folder + "/" + name)) {
      places.push_back({scope, name.substr(0, name.size() - 2), folder + "/" + name + "/" + file});
    }
  }
}

}  // namespace

std::vector<OwnFile> files_for(const Tree& tree, const Target& target, const std::string& library) {
  switch (target.scope) {
    case Scope::kUser:
      return {{user_path(), environment_text(library), true}};
    case Scope::kUserService:
    case Scope::kService: {
      const bool of_user = target.scope == Scope::kUserService;
      const Home home = of_user ? home_of_user() : Home{};
      const std::string present = present_preload(tree, unit_folders(of_user ? &home : nullptr), target.unit, kDropIn);
      return {{unit_path(target), service_text(present, library), of_user}};
    }
    case Scope::kSystem:
      break;
  }
  std::vector<OwnFile> files;
  if (kernel_has_rdma(tree) && !has_driver_of_others(tree)) {
    files.push_back({std::string{kDriver}, "driver " + plugin_beside(tree, library) + "\n"});
  }
  if (target.all_programs) return files;
  files.push_back({std::string{kEnvironment}, environment_text(library)});
  files.push_back({std::string{kManager}, manager_text(library)});
  files.push_back({std::string{kProfile}, profile_text(library)});
  return files;
}

std::vector<std::string> paths_of(const Target& target) {
  if (target.scope == Scope::kUser) return {user_path()};
  if (target.scope != Scope::kSystem) return {unit_path(target)};
  return {std::string{kProfile}, std::string{kManager}, std::string{kEnvironment}, std::string{kDriver}};
}

std::string library_in(const Tree& tree, const std::string& wanted, bool for_all) {
  std::string library = wanted;
  if (library.empty()) library = tree.is_system() ? own_library() : library_of_other_tree(tree);
  (void)components_of(library);
  check_name(library);
  if (!tree.exists(library)) throw file_error(tree.shown(library), ENOENT);
  if (for_all) check_readable(tree, library);
  return library;
}

std::vector<Place> places_in(const Tree& tree, const Home* home) {
  std::vector<Place> places;
  add_if_there(tree, places, {"all programs", "", kPreloadList});
  add_if_there(tree, places, {"system", "", "/etc/environment"});
  add_folder(tree, places, "system", "/etc/environment.d");
  add_folder(tree, places, "system", "/etc/systemd/system.conf.d");
  add_folder(tree, places, "system", "/etc/profile.d");
  add_services(tree, places, "service", "/etc/systemd/system");
  add_services(tree, places, "user service", "/etc/systemd/user");
  if (home != nullptr) {
    add_folder(tree, places, "user", home->configuration + "/environment.d");
    add_services(tree, places, "user service", home->configuration + "/systemd/user");
  }
  add_folder(tree, places, "driver", std::string{kDriverFolder});
  return places;
}

std::set<std::string> claimed_directories(const Tree& tree, const std::vector<Place>& places) {
  std::set<std::string> claimed;
  for (const Place& place : places) {
    const std::string text = tree.read(place.path).value_or("");
    if (is_own(text)) claimed.merge(claimed_by(text, place.path));
  }
  return claimed;
}

}  // namespace brdma::enable
