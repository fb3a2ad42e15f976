// enable/service_unit.h - systemd units: their names, where their files are, and the LD_PRELOAD that they set already.
#pragma once

#include <string>
#include <vector>

#include "enable/tree.h"

namespace brdma::enable {

// The home of the calling user, by HOME or the user database, and where XDG variables lead (absolute ones only).
struct Home {
  std::string configuration;  // ~/.config
  std::string data;           // ~/.local/share
};
[[nodiscard]] Home home_of_user();  // Throws EnableError: there is none.

// "nginx" -> "nginx.service". Throws UsageError: no name of a service unit.
[[nodiscard]] std::string unit_name(const std::string& word);

// Directories of unit files, the strongest first: of the system's manager, or (home) of a user's.
[[nodiscard]] std::vector<std::string> unit_folders(const Home* home);

// LD_PRELOAD as the unit's own files set it, other than by the drop-in `own_name`; "" where they don't. Throws
// EnableError: no such unit, or a file that would override a drop-in of that name.
[[nodiscard]] std::string present_preload(const Tree& tree, const std::vector<std::string>& folders,
                                          const std::string& unit, const std::string& own_name);

}  // namespace brdma::enable
