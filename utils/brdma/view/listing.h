// view/listing.h - lists of records for people: tables with headings and units that fit a terminal, and blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "output.h"

namespace brdma::view {

// Of the terminal at standard output; 80 if it has no width or there is none. COLUMNS overrides it, as in other
// programs.
[[nodiscard]] std::size_t terminal_width();
[[nodiscard]] std::size_t terminal_height();  // likewise 24, LINES
// Whether standard output takes colour: a terminal, TERM is not "dumb", NO_COLOR is empty or not set (no-color.org).
[[nodiscard]] bool takes_colour();

// "srtt_us" -> "srtt us", "rate_mbps" -> "rate Mbit/s", "ifname" -> "dev"
[[nodiscard]] std::string heading_of(std::string_view key);
// The member of an object; "memory.total" is a member of a member. Null: there is none.
[[nodiscard]] Json member_of(const Json& fields, const std::string& key);

// Throws UsageError if there are records and none has the key; names the nearest.
void require_keys(const std::vector<Record>& records, const std::vector<std::string>& keys);
// Those members only; all, if none is named.
[[nodiscard]] Json chosen(const Json& fields, const std::vector<std::string>& keys);

// A heading, then a row a record. Numbers to the right; "-" where there is no value.
void print_table_of(const std::vector<Record>& records, const std::vector<std::string>& keys);
// `columns` as for print_records(): the last of those that may be left out goes first.
void print_table_that_fits(const std::vector<Record>& records, std::string_view columns);
// All of them, however wide.
void print_whole_table(const std::vector<Record>& records, std::string_view columns);
// A record's head, then one key a line.
void print_blocks(const std::vector<Record>& records);

}  // namespace brdma::view
