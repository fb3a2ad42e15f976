// check/facts.h - all that `brdma check` knows about this machine, as plain values: collected by collect/, judged by
// find/. Nothing here calls the system. Text of other programs is unchecked: printable() before it is shown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace brdma::check {

struct Gid {
  int index = 0;
  std::string address;  // "10.0.0.1", "fe80::1"
};

// A device of ours, as programs see it.
struct Device {
  std::string name, netdev;
  std::uint32_t netdev_mtu = 0, path_mtu = 0;  // bytes
  std::uint64_t speed_mbps = 0;
  bool active = false;
  std::vector<Gid> gids;  // without holes
};

// What a verbs program had of one device of ours: the probe opens it and writes to itself.
struct Opened {
  std::string device;
  bool opened = false, queue_pair = false, transferred = false;
  int error = 0;                     // errno value of the step that failed; 0: none
  std::string step;                  // that failed: "ibv_open_device"
  std::uint64_t receive_buffer = 0;  // bytes of SO_RCVBUF, as the kernel counts; 0: not seen
  bool receive_offload = false;      // UDP_GRO
  std::string receive, receive_reason, transmit, transmit_reason;  // "udp", "xdp"
  std::string mode;                                                // of the queue pair: "bitmap"
};

struct Probe {
  bool ran = false;  // it printed its result
  bool in_time = true;
  int exit_code = 0;
  std::vector<std::string> listed;    // by libibverbs, in its order
  std::vector<Opened> opened;         // active devices of ours
  std::vector<std::string> messages;  // lines of standard error: the library's sentences
};

struct Daemon {
  bool answers = false;
  int error = 0;        // of the query; ENOENT: none runs
  std::string message;  // of the error
  std::string version;
  std::uint32_t lease_protocol = 0, own_lease_protocol = 0;
  std::int64_t uid = -1;
  bool serves_all_users = false;       // --system
  std::string program, program_error;  // that a program would start
};

struct SystemCall {
  std::string name;
  int error = 0;       // errno value; 0: allowed
  bool ends = false;   // the process was ended by a signal
  bool needed = true;  // else only `purpose` is lost
  std::string purpose;
};

// A place of the device files.
struct RuntimePlace {
  std::string path;
  int error = 0;  // errno value; 0: usable
};

struct Host {
  std::uint32_t processors = 0;  // that this process may use
  std::uint64_t open_files_hard = 0, open_files_soft = 0;
  int netlink_error = 0;
  bool has_proc = true;
  std::string clock_source;          // empty: not known
  bool segmentation_offload = true;  // UDP_SEGMENT works
  std::vector<SystemCall> calls;
  std::vector<RuntimePlace> places;
  std::uint64_t receive_buffer_max = 0;  // net.core.rmem_max; 0: not known
};

struct Setting {
  std::string key, value, source, where;
};

struct Variable {
  std::string name, value;
};

struct Configuration {
  std::vector<Setting> settings;             // all
  std::vector<std::string> errors;           // sentences of control::load_settings
  std::vector<Variable> own, others;         // BRDMA_*; those of other libraries that choose devices or GIDs
  std::vector<std::string> known_variables;  // BRDMA_* that exist
  std::string recovery_mode, datapath_receive, datapath_transmit;
  bool local = true;  // data between processes of this host is fetched from memory
};

struct Library {
  std::string path, error;  // of libbitmaprdma.so
  std::string version, brdma, probe_error;
};

// `brdma check -- PROGRAM`: the file that would run.
struct Program {
  std::string name, path;   // empty path: not found
  std::string interpreter;  // of a script
  bool readable = true, is_elf = false, is_static = false, other_machine = false;
  bool changes_user = false, has_capabilities = false;
};

// One direction of a path.
struct Direction {
  std::uint32_t sent = 0, received = 0, reordered = 0, duplicated = 0;  // datagrams
  std::uint32_t path_mtu = 0;                                           // largest payload that arrived, bytes; 0: none
  double mbps = 0;                                                      // RDMA WRITE
  double tcp_mbps = 0;
};

// `brdma check PEER`.
struct Peer {
  std::string address;
  std::string error, error_key;  // a step failed: sentence, and the finding's key
  std::string version;           // of the peer's brdma
  std::string own_device, device;
  std::uint32_t own_mtu = 0, mtu = 0;  // path MTU that each device states, bytes
  Direction to_peer, from_peer;
  std::string mode, data, receive, transmit;  // of the queue pair: "bitmap", "fetched", "udp"
  double read_us = 0, tcp_us = 0;             // median round trips
};

struct Facts {
  std::vector<Device> devices;
  std::string no_device_reason;
  std::vector<std::string> kernel_devices;  // in /sys/class/infiniband, of others
  Probe probe;
  Daemon daemon;
  Host host;
  Configuration configuration;
  Library library;
  std::optional<Program> program;
  std::optional<Peer> peer;
};

}  // namespace brdma::check
