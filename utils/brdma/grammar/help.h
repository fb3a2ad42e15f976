// grammar/help.h - help and messages about misuse, from the table.
#pragma once

#include <string>
#include <string_view>

#include "grammar/walk.h"
#include "words.h"

namespace brdma::grammar {

[[nodiscard]] std::string help_text(const Topic& topic);

// "brdma recovery set [dev DEV] [qp QPN] KEY VALUE ...", a line for each of the object's commands, or those that begin
// with `command`.
[[nodiscard]] std::string usage(std::string_view object, std::string_view command = {});
// For a word that has no place among those of `object`: names the nearest right word, and the usage.
[[nodiscard]] UsageError unexpected(std::string_view word, std::string_view object, std::string_view command = {});
// For a word that stands where an object or a command does, or an option: the same without the usage.
[[nodiscard]] UsageError unknown_object(std::string_view word);
[[nodiscard]] UsageError unknown_command(std::string_view word, std::string_view object);
[[nodiscard]] UsageError unknown_option(std::string_view word, std::string_view object = {},
                                        std::string_view command = {});

// "brdma recovery set [dev DEV] ..."
[[nodiscard]] std::string line_of(const Object& object, const Command& command);
// `text` in lines of at most `width` characters, each behind `indent` blanks; a word that is longer has its own line.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t indent, std::size_t width);

}  // namespace brdma::grammar
