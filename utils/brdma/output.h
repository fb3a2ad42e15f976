// output.h - prints answers: rdma(8)'s records (one a line, `key value` pairs), JSON with stable keys, and aligned
// tables.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace brdma {

using Json = nlohmann::ordered_json;

struct OutputStyle {
  bool json = false;
  bool pretty = false;               // JSON over several lines
  int details = 0;                   // -d, -dd
  bool terminal = false;             // standard output is one
  bool lists = false;                // set by an object whose records are rows of a list, with default columns
  std::vector<std::string> columns;  // -o: of records these keys only

  // Records are printed as a table (view/listing.h).
  [[nodiscard]] bool table() const { return !json && (!columns.empty() || (terminal && lists && details == 0)); }
  // Each record has all its keys, as in JSON, those that a line has in its head too.
  [[nodiscard]] bool complete() const { return json || table(); }
};

// One line for each record: "<head> key value key value ". Nested values are printed as compact JSON. On a terminal a
// record is a row of a table if it belongs to a list, else, and with -d, a block, one key a line.
struct Record {
  std::string head;  // "link brdma_eth0/1", text only
  Json fields;       // an object
};
// `columns`: keys of the table that a terminal gets, separated by blanks; one that ends with '?' is left out where the
// terminal is too narrow. With -o the table has those columns, also where the output is no terminal.
// Throws UsageError if records have none of the keys of -o.
void print_records(const std::vector<Record>& records, const OutputStyle& style, std::string_view columns = {});
// One line for each record also on a terminal; -o chooses its keys.
void print_lines(const std::vector<Record>& records, const OutputStyle& style);
void print_json(const Json& json, const OutputStyle& style);

// First column to the left, the others to the right. An empty row makes an empty line.
void print_table(const std::vector<std::vector<std::string>>& rows);

// Writes what is still buffered. Throws std::runtime_error if standard output could not take all that was printed.
void flush_output();

// Makes names and texts of other users' programs safe for a terminal: control characters (C1 as well) and invalid UTF-8
// become \\xNN. All printed text passes here; JSON escapes by itself.
[[nodiscard]] std::string printable(std::string_view text);
// One line on standard error: "brdma: <text>".
void print_error(std::string_view text);

// 1234567 -> "1,234,567"
[[nodiscard]] std::string grouped(std::uint64_t number);

}  // namespace brdma
