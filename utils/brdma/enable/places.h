// enable/places.h - which files make programs see the RDMA devices, for each scope, and all such files that are there.
//
//   scope           file                                                     read by
//   user            ~/.config/environment.d/60-bitmaprdma.conf               the user's systemd manager, at log-in
//   user service    ~/.config/systemd/user/UNIT.d/60-bitmaprdma.conf         that unit of the user
//   service         /etc/systemd/system/UNIT.d/60-bitmaprdma.conf            that unit
//   system          /etc/environment.d/60-bitmaprdma.conf                    every user's systemd manager
//                   /etc/systemd/system.conf.d/60-bitmaprdma.conf            the system's manager, for its services
//                   /etc/profile.d/bitmaprdma.sh                             log-in shells
//                   /etc/libibverbs.d/bitmaprdma.driver                      libibverbs, where the kernel has RDMA
//   all programs    /etc/ld.so.preload                                       glibc's loader, at each exec (by choice)
#pragma once

#include <string>
#include <vector>

#include "enable/own_file.h"
#include "enable/service_unit.h"
#include "enable/tree.h"

namespace brdma::enable {

inline constexpr const char* kDropIn = "60-bitmaprdma.conf";
inline constexpr const char* kPreloadList = "/etc/ld.so.preload";

enum class Scope { kUser, kUserService, kService, kSystem };

// What a scope has beside its files.
struct Target {
  Scope scope = Scope::kSystem;
  std::string unit;           // of the service scopes: "nginx.service"
  bool all_programs = false;  // kSystem: by /etc/ld.so.preload in place of the variables
};

// Files to write so that programs get `library` (its path inside the tree). Throws EnableError.
[[nodiscard]] std::vector<OwnFile> files_for(const Tree& tree, const Target& target, const std::string& library);
// Paths that a scope may have, whether there or not.
[[nodiscard]] std::vector<std::string> paths_of(const Target& target);

// The library's path inside the tree. `wanted`: as the caller names it; "" for this program's own. Throws EnableError:
// it is not there, the loader or a file cannot name it, or (`for_all`) not every user can read it.
[[nodiscard]] std::string library_in(const Tree& tree, const std::string& wanted, bool for_all);

// A file that names the library, or may.
struct Place {
  std::string scope;  // "user", "user service", "service", "system", "driver", "all programs"
  std::string unit;   // of services
  std::string path;
};
// Every place that is there, in the tree: own files and those of others.
[[nodiscard]] std::vector<Place> places_in(const Tree& tree, const Home* home);
// Directories that were made for the own files in these places.
[[nodiscard]] std::set<std::string> claimed_directories(const Tree& tree, const std::vector<Place>& places);

}  // namespace brdma::enable
