#include "abi/op_table.h"

#include <algorithm>
#include <array>

namespace brdma::provider::abi {
namespace {

struct Op {
  std::string_view name;
  int since = 0;    // first release; 0 = the oldest supported
  int until = 999;  // last release
};

constexpr auto kOps = std::to_array<Op>({
    {"advise_mr"},
    {"alloc_buf", 64},
    {"alloc_dm"},
    {"alloc_dmah", 59},
    {"alloc_mw"},
    {"alloc_null_mr"},
    {"alloc_parent_domain"},
    {"alloc_pd"},
    {"alloc_td"},
    {"async_event"},
    {"attach_counters_point_flow"},
    {"attach_mcast"},
    {"bind_mw"},
    {"close_xrcd"},
    {"cq_event"},
    {"create_ah"},
    {"create_comp_cntr", 65},
    {"create_counters"},
    {"create_cq"},
    {"create_cq_ex"},
    {"create_flow"},
    {"create_flow_action_esp"},
    {"create_qp"},
    {"create_qp_ex"},
    {"create_rwq_ind_table"},
    {"create_srq"},
    {"create_srq_ex"},
    {"create_wq"},
    {"dealloc_dmah", 59},
    {"dealloc_mw"},
    {"dealloc_pd"},
    {"dealloc_td"},
    {"dereg_mr"},
    {"destroy_ah"},
    {"destroy_comp_cntr", 65},
    {"destroy_counters"},
    {"destroy_cq"},
    {"destroy_flow"},
    {"destroy_flow_action"},
    {"destroy_qp"},
    {"destroy_rwq_ind_table"},
    {"destroy_srq"},
    {"destroy_wq"},
    {"detach_mcast"},
    {"dm_export_dmabuf_fd", 62},
    {"free_buf", 64},
    {"free_context"},
    {"free_dm"},
    {"get_srq_num"},
    {"import_dm", 35},
    {"import_mr", 31},
    {"import_pd", 31},
    {"inc_comp_cntr", 65},
    {"inc_err_comp_cntr", 65},
    {"modify_cq"},
    {"modify_flow_action_esp"},
    {"modify_qp"},
    {"modify_qp_rate_limit"},
    {"modify_srq"},
    {"modify_wq"},
    {"open_qp"},
    {"open_xrcd"},
    {"poll_cq"},
    {"post_recv"},
    {"post_send"},
    {"post_srq_ops"},
    {"post_srq_recv"},
    {"qp_attach_comp_cntr", 65},
    {"query_comp_cntr_caps", 65},
    {"query_device", 0, 32},
    {"query_device_ex"},
    {"query_ece", 31},
    {"query_port"},
    {"query_port_speed", 62},
    {"query_qp"},
    {"query_qp_data_in_order", 36},
    {"query_rt_values"},
    {"query_srq"},
    {"read_comp_cntr", 65},
    {"read_counters"},
    {"read_err_comp_cntr", 65},
    {"reg_dm_mr"},
    {"reg_dmabuf_mr", 34},
    {"reg_mr"},
    {"reg_mr_ex", 59},
    {"req_notify_cq"},
    {"rereg_mr"},
    {"resize_cq"},
    {"set_comp_cntr", 65},
    {"set_ece", 31},
    {"set_err_comp_cntr", 65},
    {"unimport_dm", 35},
    {"unimport_mr", 31},
    {"unimport_pd", 31},
});
static_assert(std::is_sorted(kOps.begin(), kOps.end(), [](const Op& a, const Op& b) { return a.name < b.name; }));

constexpr bool exists(const Op& op, int release) { return op.since <= release && release <= op.until; }

// First releases of each table, oldest first.
constexpr std::array kTableReleases{28, 31, 33, 34, 35, 36, 59, 62, 64, 65};
constexpr int kPabiOfRelease31 = 25;

}  // namespace

std::optional<std::size_t> op_index(std::string_view name, int release) {
  std::size_t index = 0;
  for (const Op& op : kOps) {
    if (op.name == name) return exists(op, release) ? std::optional{index} : std::nullopt;
    if (exists(op, release)) ++index;
  }
  return std::nullopt;
}

std::size_t op_count(int release) {
  return static_cast<std::size_t>(
      std::count_if(kOps.begin(), kOps.end(), [release](const Op& op) { return exists(op, release); }));
}

std::optional<int> release_of_table(std::size_t poll_cq, std::size_t req_notify_cq, int pabi) {
  for (const int release : kTableReleases) {
    const bool old_pabi = release < 33;
    if (old_pabi != (pabi == kPabiOfRelease31)) continue;
    if (op_index("poll_cq", release) == poll_cq && op_index("req_notify_cq", release) == req_notify_cq) return release;
  }
  return std::nullopt;
}

}  // namespace brdma::provider::abi
