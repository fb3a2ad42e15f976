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
  bool pretty = false;  // JSON over several lines
  int details = 0;      // -d, -dd
};

// One line for each record: "<head> key value key value ". Nested values are printed as compact JSON.
struct Record {
  std::string head;  // "link brdma_eth0/1", text only
  Json fields;       // an object
};
void print_records(const std::vector<Record>& records, const OutputStyle& style);
void print_json(const Json& json, const OutputStyle& style);

// First column to the left, the others to the right. An empty row makes an empty line.
void print_table(const std::vector<std::vector<std::string>>& rows);

// Makes names and texts of other users' programs safe for a terminal: control characters (C1 as well) and invalid UTF-8
// become \\xNN. All printed text passes here; JSON escapes by itself.
[[nodiscard]] std::string printable(std::string_view text);
// One line on standard error: "brdma: <text>".
void print_error(std::string_view text);

// 1234567 -> "1,234,567"
[[nodiscard]] std::string grouped(std::uint64_t number);

}  // namespace brdma
