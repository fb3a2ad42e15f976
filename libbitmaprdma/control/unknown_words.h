// control/unknown_words.h - names that are no setting's: each with the setting that was probably meant.
//
// A variable of a later version must not break a program, so an unknown BRDMA_... variable is a warning: `brdma` shows
// it where it shows settings, the library reports it when a program opens a device, brdmad logs it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace brdma::control {

// "there is no setting recovery.depth_mx: did you mean 'recovery.depth_max'?" `key`: with or without its table.
[[nodiscard]] std::string no_such_setting(std::string_view key);

// A sentence for each variable BRDMA_... of `environment` ("NAME=VALUE", ended by a null pointer) that is neither a
// setting's nor one of this project's scripts and tests.
[[nodiscard]] std::vector<std::string> unknown_variables(const char* const* environment);
// Of this process. None for a set-user-ID program, which ignores these variables.
[[nodiscard]] std::vector<std::string> unknown_variables();

}  // namespace brdma::control
