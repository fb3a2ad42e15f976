#include "view/listing.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "control/nearest_word.h"
#include "words.h"

namespace brdma::view {
namespace {

constexpr const char* kBold = "\033[1m";
constexpr const char* kRed = "\033[31m";
constexpr const char* kPlain = "\033[0m";

std::size_t size_of_terminal(const char* variable, unsigned short winsize::*member, std::size_t otherwise) {
  std::size_t number = 0;
  if (const char* const text = std::getenv(variable); text != nullptr) {
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
    if (error == std::errc{} && *end == '\0' && number > 0) return number;
  }
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.*member > 0) return size.*member;
  return otherwise;
}

// Characters that take room: bytes that do not continue one of UTF-8.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string cell_of(const Json& value) {
  if (value.is_null()) return "-";
  return printable(value.is_string() ? value.get<std::string>() : value.dump());
}

// States that need someone's eye.
bool is_bad(std::string_view cell) {
  constexpr std::array<std::string_view, 5> kBad{"ERR", "SQE", "DOWN", "DISABLED", "promoted"};
  return std::find(kBad.begin(), kBad.end(), cell) != kBad.end();
}

struct Column {
  std::string key, heading;
  bool may_go = false;
  bool to_the_right = true;  // every value is a number, or there is none
  std::size_t width = 0;
  std::vector<std::string> cells;
};

Column column_of(const std::string& key, const std::vector<Record>& records) {
  Column column{key, heading_of(key), false, true, 0, {}};
  column.width = width_of(column.heading);
  for (const Record& record : records) {
    const Json value = member_of(record.fields, key);
    column.to_the_right = column.to_the_right && (value.is_number() || value.is_null());
    column.cells.push_back(cell_of(value));
    column.width = std::max(column.width, width_of(column.cells.back()));
  }
  return column;
}

std::size_t width_of(const std::vector<Column>& columns) {
  std::size_t width = 0;
  for (const Column& column : columns) width += column.width + 2;
  return width == 0 ? 0 : width - 2;
}

std::string padded(const Column& column, const std::string& cell, bool last) {
  const std::string pad(column.width - width_of(cell), ' ');
  if (column.to_the_right) return pad + cell;
  return last ? cell : cell + pad;
}

void print_columns(const std::vector<Column>& columns, std::size_t rows) {
  const bool colour = takes_colour();
  std::string line;
  for (const Column& column : columns) {
    line += (line.empty() ? "" : "  ") + padded(column, column.heading, &column == &columns.back());
  }
  std::printf("%s%s%s\n", colour ? kBold : "", line.c_str(), colour ? kPlain : "");
  for (std::size_t row = 0; row < rows; ++row) {
    line.clear();
    for (const Column& column : columns) {
      const std::string cell = padded(column, column.cells[row], &column == &columns.back());
      const bool red = colour && is_bad(column.cells[row]);
      line += (&column == &columns.front() ? "" : "  ") + (red ? kRed + cell + kPlain : cell);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

std::string replaced_end(std::string_view key, std::string_view end, std::string_view unit) {
  return std::string{key.substr(0, key.size() - end.size())} + " " + std::string{unit};
}

}  // namespace

std::size_t terminal_width() { return size_of_terminal("COLUMNS", &winsize::ws_col, 80); }
std::size_t terminal_height() { return size_of_terminal("LINES", &winsize::ws_row, 24); }

bool takes_colour() {
  const char* const term = std::getenv("TERM");
  const char* const none = std::getenv("NO_COLOR");
  if (none != nullptr && *none != '\0') return false;
  return isatty(STDOUT_FILENO) != 0 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

std::string heading_of(std::string_view key) {
  if (key == "ifname") return "dev";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kUnits{{{"_per_second", "/s"},
                                                                                 {"_mbps", "Mbit/s"},
                                                                                 {"_us", "us"},
                                                                                 {"_ms", "ms"},
                                                                                 {"_bytes", "B"},
                                                                                 {"_pkts", "pkts"},
                                                                                 {"_percent", "%"}}};
  std::string heading{key};
  for (const auto& [end, unit] : kUnits) {
    if (key.ends_with(end)) {
      heading = replaced_end(key, end, unit);
      break;
    }
  }
  std::replace(heading.begin(), heading.end(), '_', ' ');
  return heading;
}

Json member_of(const Json& fields, const std::string& key) {
  if (!fields.is_object()) return nullptr;
  if (const auto found = fields.find(key); found != fields.end()) return *found;
  for (std::size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1)) {
    const auto outer = fields.find(key.substr(0, dot));
    if (outer != fields.end()) return member_of(*outer, key.substr(dot + 1));
  }
  return nullptr;
}

void require_keys(const std::vector<Record>& records, const std::vector<std::string>& keys) {
  if (records.empty()) return;
  for (const std::string& key : keys) {
    NearestWord nearest{key};
    bool known = false;
    for (const Record& record : records) {
      known = known || !member_of(record.fields, key).is_null() || record.fields.contains(key);
      for (const auto& [name, value] : record.fields.items()) nearest.offer(name);
    }
    if (!known) {
      const std::string question = nearest.question();
      throw UsageError("there is no key '" + key + "'" + question + (question.empty() ? ":" : "") +
                       " -j shows all keys");
    }
  }
}

Json chosen(const Json& fields, const std::vector<std::string>& keys) {
  if (keys.empty()) return fields;
  Json some = Json::object();
  for (const std::string& key : keys) some[key] = member_of(fields, key);
  return some;
}

void print_table_of(const std::vector<Record>& records, const std::vector<std::string>& keys) {
  std::vector<Column> columns;
  for (const std::string& key : keys) columns.push_back(column_of(key, records));
  print_columns(columns, records.size());
}

namespace {

// "ifname pid? comm"
std::vector<Column> columns_of(const std::vector<Record>& records, std::string_view columns) {
  std::vector<Column> all;
  while (!columns.empty()) {
    std::string key{columns.substr(0, columns.find(' '))};
    columns.remove_prefix(std::min(columns.size(), key.size() + 1));
    const bool may_go = key.ends_with('?');
    if (may_go) key.pop_back();
    all.push_back(column_of(key, records));
    all.back().may_go = may_go;
  }
  return all;
}

}  // namespace

void print_whole_table(const std::vector<Record>& records, std::string_view columns) {
  print_columns(columns_of(records, columns), records.size());
}

void print_table_that_fits(const std::vector<Record>& records, std::string_view columns) {
  std::vector<Column> all = columns_of(records, columns);
  while (width_of(all) > terminal_width()) {
    const auto last = std::find_if(all.rbegin(), all.rend(), [](const Column& column) { return column.may_go; });
    if (last == all.rend()) break;
    all.erase(std::next(last).base());
  }
  print_columns(all, records.size());
}

void print_blocks(const std::vector<Record>& records) {
  const bool colour = takes_colour();
  for (const Record& record : records) {
    std::size_t longest = 0;
    for (const auto& [key, value] : record.fields.items()) longest = std::max(longest, key.size());
    if (!record.head.empty()) {
      std::printf("%s%s%s\n", colour ? kBold : "", printable(record.head).c_str(), colour ? kPlain : "");
    }
    for (const auto& [key, value] : record.fields.items()) {
      const std::string pad(longest - key.size() + 2, ' ');
      std::printf("  %s%s%s\n", printable(key).c_str(), pad.c_str(), cell_of(value).c_str());
    }
  }
}

}  // namespace brdma::view
