// preload/redirect.h - paths that are shown from our device tree instead of the kernel's. Pure text; no file is
// accessed. Called for every path that the program opens: an ordinary path costs two or three comparisons.
//   /sys/class/infiniband, infiniband_verbs, infiniband_mad, infiniband_ucma, and everything below
//   /sys/devices/virtual/infiniband and the like, to which the classes' links lead
//   /dev/infiniband and everything below
// Doubled slashes and "." components are supported; ".." before these names is not (nobody writes it). Relative paths
// are left alone: a directory that was opened or entered through a hook is in the tree already.
#pragma once

#include <climits>
#include <cstddef>
#include <optional>
#include <string_view>

namespace brdma::preload {

struct Match {
  std::string_view directory;  // under the tree's root: "sys/class/infiniband", "dev/infiniband", ...
  std::string_view rest;       // "" or "/..." behind it, as the program wrote it
};

// `path` may be null.
[[nodiscard]] std::optional<Match> match_path(const char* path);

// Below /sys/devices, where the kernel's own devices are too: the name behind the class, "" if there is none.
[[nodiscard]] bool is_of_devices(const Match& match);
[[nodiscard]] std::string_view first_name(const Match& match);

// The node of a device, "/dev/infiniband/uverbsN": writes to it are commands.
[[nodiscard]] bool is_uverbs_node(const Match& match);
// The node of RDMA-CM, "/dev/infiniband/rdma_cm": opening it makes an event channel.
[[nodiscard]] bool is_rdma_cm_node(const Match& match);
// The directory that libibverbs reads to find devices, "/sys/class/infiniband_verbs".
[[nodiscard]] bool is_device_list(const Match& match);

// root + "/" + directory + rest into `out`; false if it does not fit.
[[nodiscard]] bool join_path(std::string_view root, const Match& match, char (&out)[PATH_MAX]);

}  // namespace brdma::preload
