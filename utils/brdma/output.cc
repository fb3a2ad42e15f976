#include "output.h"

#include <algorithm>
#include <cstdio>

namespace brdma {

void print_json(const Json& json, const OutputStyle& style) {
  const std::string text = json.dump(style.pretty ? 4 : -1, ' ', false, Json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

void print_records(const std::vector<Record>& records, const OutputStyle& style) {
  if (style.json) {
    Json list = Json::array();
    for (const Record& record : records) list.push_back(record.fields);
    return print_json(list, style);
  }
  for (const Record& record : records) {
    std::string line = record.head;
    for (const auto& [key, value] : record.fields.items()) {
      if (!line.empty()) line.append(1, ' ');
      line.append(key).append(1, ' ').append(value.is_string() ? value.get<std::string>() : value.dump());
    }
    std::printf("%s\n", line.c_str());
  }
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    // A row of one cell is a heading: it makes no column wider.
    for (std::size_t i = 0; i < row.size() && row.size() > 1; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::size_t pad = row.size() == 1 || widths[i] < row[i].size() ? 0 : widths[i] - row[i].size();
      if (i == 0) {
        line.append(row[i]).append(pad, ' ');
      } else {
        line.append(2 + pad, ' ').append(row[i]);
      }
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

}  // namespace brdma
