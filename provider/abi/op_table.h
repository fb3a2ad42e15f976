// abi/op_table.h - struct verbs_context_ops: the table of operations that a plugin fills, pointers in alphabetical
// order of their names. A release with a new verb shifts the ones behind it, and the number in the plugin's file name
// (PABI) does not show it: releases 34, 35 and 36 share one, 59 and 62 another. So the table is identified by the
// places of two operations that can be read back (abi/layout.h), and indexed by name for that release. Source: the
// tables of releases 28, 31, 33 to 36, 44, 57 to 65 as declared there.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace brdma::provider::abi {

inline constexpr std::size_t kOpsMax = 256;  // slots of a table: more than any release has

// Index of operation `name` in the table of `release`; none where that release lacks it.
[[nodiscard]] std::optional<std::size_t> op_index(std::string_view name, int release);
[[nodiscard]] std::size_t op_count(int release);

// The first release whose table has poll_cq and req_notify_cq at these indices; `pabi` distinguishes 31 from 34. None:
// an unknown table.
[[nodiscard]] std::optional<int> release_of_table(std::size_t poll_cq, std::size_t req_notify_cq, int pabi);

}  // namespace brdma::provider::abi
