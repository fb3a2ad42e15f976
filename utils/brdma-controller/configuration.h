// brdma-controller/configuration.h - the controller's file: facts about the network that it needs before switches have
// reported, and its limits (docs/explanation/wan.md#configuration). TOML; other tables, as in a lab's topology file,
// are ignored.
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
