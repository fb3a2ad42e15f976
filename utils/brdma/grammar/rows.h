// grammar/rows.h - rows of the table of the command line (grammar/table.h): options and commands.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace brdma::grammar {

struct Option {
  std::string_view names;  // "-f, --follow": the first is the usual one
  std::string_view value;  // "SECONDS"; empty: it has none
  std::string_view meaning;
};

// Options that another table has.
enum Group : unsigned {
  kNoGroup = 0,
  kNetworkOptions = 1,  // of a lab's network: fabric::network_options()
  kSettingOptions = 2,  // every setting of docs/reference/configuration.md: --age-max-us for BRDMA_AGE_MAX_US
};

inline constexpr std::size_t kNoProgram = static_cast<std::size_t>(-1);

// Words in lower case stand for themselves; those in capitals for a value, whose kind they name (completion.cc): DEV,
// QPN, KEY, TYPE, HOST, LAB, ... Brackets mean "may be left out", a bar "or", dots "again".
struct Command {
  std::string_view name;       // empty: the object's only one, which is not written
  std::string_view arguments;  // "[dev DEV] [qp QPN] KEY VALUE ..."
  std::string_view meaning;
  std::span<const Option> options = {};
  unsigned groups = kNoGroup;
  // Words behind so many others are a program's ("lab exec HOST PROGRAM": 1), as all are behind "--".
  std::size_t program_after = kNoProgram;
  bool passes_on = false;  // options are a program's too, and it has help of its own
};

}  // namespace brdma::grammar
