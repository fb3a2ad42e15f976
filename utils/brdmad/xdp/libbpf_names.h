// brdmad/xdp/libbpf_names.h - includes libbpf; adds the functions used here under their current names where libbpf is
// older than 0.7 (Ubuntu 22.04 has 0.5).
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#ifndef LIBBPF_OPTS
#include <cerrno>
#include <cstddef>
#include <cstdint>

#define LIBBPF_OPTS DECLARE_LIBBPF_OPTS

inline int bpf_map_create(bpf_map_type type, const char* name, std::uint32_t key_size, std::uint32_t value_size,
                          std::uint32_t entries_max, const void* /*options*/) {
  return bpf_create_map_name(type, name, static_cast<int>(key_size), static_cast<int>(value_size),
                             static_cast<int>(entries_max), 0);
}

struct bpf_prog_load_opts {
  std::size_t sz;
  std::uint32_t prog_flags;
  bpf_attach_type expected_attach_type;
  char* log_buf;
  std::uint32_t log_size;
};
inline int bpf_prog_load(bpf_prog_type type, const char* name, const char* license, const bpf_insn* code,
                         std::size_t count, const bpf_prog_load_opts* options) {
  bpf_load_program_attr attributes{};
  attributes.prog_type = type;
  attributes.name = name;
  attributes.license = license;
  attributes.insns = code;
  attributes.insns_cnt = count;
  if (options == nullptr) return bpf_load_program_xattr(&attributes, nullptr, 0);
  attributes.prog_flags = options->prog_flags;
  attributes.expected_attach_type = options->expected_attach_type;
  return bpf_load_program_xattr(&attributes, options->log_buf, options->log_size);
}

struct bpf_xdp_query_opts {
  std::size_t sz;
  std::uint32_t drv_prog_id, skb_prog_id;
};
inline int bpf_xdp_query(int ifindex, int flags, bpf_xdp_query_opts* options) {
  xdp_link_info info{};
  const int error = bpf_get_link_xdp_info(ifindex, &info, sizeof info, static_cast<std::uint32_t>(flags));
  options->drv_prog_id = info.drv_prog_id;
  options->skb_prog_id = info.skb_prog_id;
  return error;
}
#endif
