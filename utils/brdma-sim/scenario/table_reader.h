// scenario/table_reader.h - reads the tables of a TOML file: each value within its range, every key known. Errors name
// file, line, and the word that was probably meant.
#pragma once

#define TOML_EXCEPTIONS 0  // as everywhere here
#include <toml++/toml.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"

namespace brdma::simulator {

// The user's mistake, as a sentence: exit code 2.
struct ScenarioError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class TableReader {
 public:
  using Take = std::function<void(const toml::node&)>;
  struct Key {
    std::string_view name;
    Take take;
  };

  // `file`: its name.
  explicit TableReader(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void fail(const toml::node& where, const std::string& what) const;
  [[noreturn]] void fail(toml::source_index line, const std::string& what) const;
  // Calls the function of each key in the table; throws for others. `what`: "[workload]".
  void read(const toml::table& table, const std::string& what, const std::vector<Key>& keys) const;
  // An unknown word of `what` ("protocol"), with the known ones.
  [[noreturn]] void fail_unknown(const toml::node& where, const std::string& what, std::string_view word,
                                 const std::vector<std::string_view>& known) const;

  [[nodiscard]] std::uint64_t number(const toml::node& node, std::string_view key, std::uint64_t least,
                                     std::uint64_t most) const;
  [[nodiscard]] double fraction(const toml::node& node, std::string_view key, double above, double most) const;
  [[nodiscard]] std::string text(const toml::node& node, std::string_view key) const;
  // A text, or a number as text.
  [[nodiscard]] std::string value_text(const toml::node& node, std::string_view key) const;
  [[nodiscard]] bool flag(const toml::node& node, std::string_view key) const;
  // "5us"
  [[nodiscard]] Duration time(const toml::node& node, std::string_view key) const;
  // "64kb", or a number
  [[nodiscard]] std::uint64_t bytes(const toml::node& node, std::string_view key, std::uint64_t most) const;
  // Index of the word among `words`.
  [[nodiscard]] std::size_t choice(const toml::node& node, std::string_view key,
                                   std::initializer_list<std::string_view> words) const;
  // "all", "h3", "h1-h6,h9": numbers from 0, by rising number, each once.
  [[nodiscard]] std::vector<std::uint32_t> hosts(const toml::node& node, std::string_view key,
                                                 std::uint32_t count) const;
  [[nodiscard]] const toml::table& table(const toml::node& node, std::string_view key) const;

 private:
  std::string file_;
};

}  // namespace brdma::simulator
