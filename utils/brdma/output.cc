#include "output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "view/listing.h"

namespace brdma {

namespace {

// Bytes of the UTF-8 character at the beginning of `text`; 0: it is none, or a control character.
std::size_t printable_bytes(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return first == 0xC2 && byte(1) < 0xA0 ? 0 : length;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = printable_bytes(text);
    if (bytes == 0) {
      const auto byte = static_cast<unsigned char>(text.front());
      out.append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
    }
    out.append(text.substr(0, bytes));
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

void print_error(std::string_view text) { std::fprintf(stderr, "brdma: %s\n", printable(text).c_str()); }

void print_json(const Json& json, const OutputStyle& style) {
  const std::string text = json.dump(style.pretty ? 4 : -1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  std::printf("%s\n", text.c_str());
}

void print_records(const std::vector<Record>& records, const OutputStyle& style, std::string_view columns) {
  if (!style.columns.empty()) view::require_keys(records, style.columns);
  if (style.json) {
    Json list = Json::array();
    for (const Record& record : records) list.push_back(view::chosen(record.fields, style.columns));
    return print_json(list, style);
  }
  if (!style.columns.empty()) return view::print_table_of(records, style.columns);
  if (style.table() && !columns.empty()) return view::print_table_that_fits(records, columns);
  if (style.terminal) return view::print_blocks(records);
  print_lines(records, style);
}

void print_lines(const std::vector<Record>& records, const OutputStyle& style) {
  for (const Record& record : records) {
    std::string line = record.head;
    const Json fields = view::chosen(record.fields, style.columns);
    for (const auto& [key, value] : fields.items()) {
      if (!line.empty()) line.append(1, ' ');
      line.append(key).append(1, ' ').append(value.is_string() ? value.get<std::string>() : value.dump());
    }
    std::printf("%s\n", printable(line).c_str());
  }
}

void flush_output() {
  errno = 0;
  const bool failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed) return;
  throw std::runtime_error(std::string{"cannot write to standard output: "} +
                           (errno != 0 ? std::strerror(errno) : "a part is missing"));
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
    std::printf("%s\n", printable(line).c_str());
  }
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, 1, ',');
  return text;
}

}  // namespace brdma
