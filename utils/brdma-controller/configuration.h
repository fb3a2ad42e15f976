// brdma-controller/configuration.h - the controller's file: what it shall know of the network before switches have
// told, and its limits (docs/wan.md#configuration). TOML; tables that are not named here, as those of a lab's topology
// file, are passed over.
#pragma once

#include <string>

#include "fabric/controller/controller.h"

namespace brdma::controller_program {

namespace ctl = fabric::controller;

struct Configuration {
  ctl::NetworkMap map;
  ctl::Settings settings;
};

// Throws std::runtime_error with a sentence. An empty path: nothing is known, default limits.
[[nodiscard]] Configuration read_configuration(const std::string& path);
[[nodiscard]] Configuration parse_configuration(const std::string& text);

}  // namespace brdma::controller_program
