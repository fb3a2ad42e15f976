// `brdma check`: what is concluded from facts. Each finding is absent on a sound machine, is there for its fault, and
// both sides of each limit are tried.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "check/finding.h"

namespace brdma::check {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// A machine without a fault, and a peer like it.
Facts sound() {
  Facts facts;
  facts.devices = {{"brdma_eth0", "eth0", 9000, 4096, 10'000, true, {{0, "fe80::1"}, {1, "10.0.0.1"}}}};
  facts.probe.ran = true;
  facts.probe.listed = {"brdma_eth0"};
  Opened opened;
  opened.device = "brdma_eth0";
  opened.opened = opened.queue_pair = opened.transferred = true;
  opened.receive_buffer = 16u << 20;
  facts.probe.opened = {opened};
  facts.daemon.error = ENOENT;
  facts.daemon.own_lease_protocol = 6;
  facts.daemon.program = "/usr/bin/brdmad";
  facts.host.processors = 2;
  facts.host.open_files_hard = facts.host.open_files_soft = 1024;
  facts.host.has_proc = true;
  facts.host.clock_source = "tsc";
  facts.host.calls = {{"memfd_create", 0, false, true, "counters are shared by it"}};
  facts.host.places = {{"/tmp/brdma-0", 0}, {"/dev/shm/brdma-0", 0}};
  facts.configuration.settings = {{"recovery.depth_max", "8", "default", ""}};
  facts.configuration.known_variables = {"BRDMA_DEPTH_MAX", "BRDMA_WINDOW"};
  facts.library.path = "/usr/lib/libbitmaprdma.so";
  facts.library.version = "0.1.0";
  return facts;
}

Facts sound_with_peer() {
  Facts facts = sound();
  Peer peer;
  peer.address = "10.0.0.2";
  peer.version = "0.1.0";
  peer.own_device = peer.device = "brdma_eth0";
  peer.own_mtu = peer.mtu = 4096;
  peer.to_peer = peer.from_peer = {2000, 2000, 0, 0, 4096, 1000, 1000};
  peer.mode = "bitmap";
  facts.peer = peer;
  return facts;
}

Facts sound_with_program() {
  Facts facts = sound();
  facts.program = Program{.name = "ib_write_bw", .path = "/usr/bin/ib_write_bw", .interpreter = {}, .is_elf = true};
  return facts;
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& one : findings) {
    text += (text.empty() ? "" : " ") + one.key + (one.severity == Severity::kError ? "!" : "");
  }
  return text;
}

struct Case {
  const char* expected;  // keys of all findings, "!" behind an error
  std::function<void(Facts&)> plant;
};

void expect_each(const Facts& base, const std::vector<Case>& cases) {
  ASSERT_THAT(text_of(find_all(base)), IsEmpty());
  for (const Case& one : cases) {
    Facts facts = base;
    one.plant(facts);
    const std::vector<Finding> findings = find_all(facts);
    EXPECT_EQ(text_of(findings), one.expected);
    for (const Finding& finding : findings) {
      EXPECT_FALSE(finding.what.empty() || finding.next.empty()) << finding.key;
    }
  }
}

// A probe whose device does not open, with the library's message.
void fail_to_open(Facts& facts, int error, const char* message) {
  facts.probe.opened[0].opened = facts.probe.opened[0].queue_pair = facts.probe.opened[0].transferred = false;
  facts.probe.opened[0].error = error;
  facts.probe.opened[0].step = "ibv_open_device";
  facts.probe.messages = {message};
}

void no_devices(Facts& facts) {
  facts.devices.clear();
  facts.probe.listed.clear();
  facts.probe.opened.clear();
  facts.no_device_reason = "no network interface is up in this network namespace: 'ip link set lo up' gives brdma_lo";
}

TEST(CheckFindings, DevicesAndGids) {
  expect_each(sound(), {{"no_device!", no_devices},
                        {"interface_down!",
                         [](Facts& facts) {
                           facts.devices[0].active = false;
                           facts.probe.opened.clear();
                         }},
                        {"interface_down",
                         [](Facts& facts) {
                           facts.devices.push_back({"brdma_eth1", "eth1", 1500, 1024, 10'000, false, {}});
                         }},
                        {"other_device_first",
                         [](Facts& facts) { facts.probe.listed.insert(facts.probe.listed.begin(), "rxe0"); }},
                        {"other_device_first", [](Facts& facts) { facts.kernel_devices = {"mlx5_0"}; }},
                        {"gid_index_wrong!",
                         [](Facts& facts) {
                           facts.configuration.others = {{"NCCL_IB_GID_INDEX", "2"}};
                         }},
                        {"",
                         [](Facts& facts) {
                           facts.configuration.others = {{"NCCL_IB_GID_INDEX", "1"}};
                         }},
                        {"",
                         [](Facts& facts) {
                           facts.configuration.others = {{"NCCL_IB_GID_INDEX", "-1"}};
                         }},
                        {"gid_index_wrong!",
                         [](Facts& facts) {
                           facts.configuration.others = {{"UCX_IB_GID_INDEX", "1x"}};
                         }},
                        {"device_variable_wrong!",
                         [](Facts& facts) {
                           facts.configuration.others = {{"NCCL_IB_HCA", "mlx5_0,mlx5_1"}};
                         }},
                        {"",
                         [](Facts& facts) {
                           facts.configuration.others = {{"NCCL_IB_HCA", "mlx5_0,brdma_eth0:1"}};
                         }},
                        {"",
                         [](Facts& facts) {
                           facts.configuration.others = {{"NCCL_IB_HCA", "=brdma_eth0:1"}};
                         }},
                        {"",
                         [](Facts& facts) {
                           facts.configuration.others = {{"UCX_NET_DEVICES", "eth0"}};
                         }},
                        {"", [](Facts& facts) {
                           facts.configuration.others = {{"NCCL_IB_HCA", "^mlx5"}};
                         }}});
}

TEST(CheckFindings, HostAndLimits) {
  expect_each(sound(),
              {{"one_processor", [](Facts& facts) { facts.host.processors = 1; }},
               {"clock_slow", [](Facts& facts) { facts.host.clock_source = "hpet"; }},
               {"", [](Facts& facts) { facts.host.clock_source = "arch_sys_counter"; }},
               {"", [](Facts& facts) { facts.host.clock_source = ""; }},
               {"netlink_refused", [](Facts& facts) { facts.host.netlink_error = EPERM; }},
               {"proc_missing", [](Facts& facts) { facts.host.has_proc = false; }},
               {"offload_missing", [](Facts& facts) { facts.host.segmentation_offload = false; }},
               {"open_files_limit!", [](Facts& facts) { facts.host.open_files_hard = 319; }},
               {"", [](Facts& facts) { facts.host.open_files_hard = 320; }},
               {"open_files_limit", [](Facts& facts) { facts.host.open_files_soft = 63; }},
               {"", [](Facts& facts) { facts.host.open_files_soft = 64; }},
               {"socket_buffer_small", [](Facts& facts) { facts.probe.opened[0].receive_buffer = (1u << 20) - 1; }},
               {"", [](Facts& facts) { facts.probe.opened[0].receive_buffer = 1u << 20; }},
               {"runtime_directory_full", [](Facts& facts) { facts.host.places[0].error = ENOSPC; }},
               {"runtime_directory_full!",
                [](Facts& facts) { facts.host.places[0].error = facts.host.places[1].error = ENOSPC; }},
               {"runtime_directory_permission", [](Facts& facts) { facts.host.places[0].error = EPERM; }},
               {"runtime_directory_permission!",
                [](Facts& facts) { facts.host.places[0].error = facts.host.places[1].error = EROFS; }}});
}

TEST(CheckFindings, ARefusedCallIsAnErrorWhereTheDeviceDoesNotWork) {
  expect_each(sound(), {{"call_refused", [](Facts& facts) { facts.host.calls[0].error = EPERM; }},
                        {"call_refused!",
                         [](Facts& facts) {
                           facts.host.calls[0].error = EPERM;
                           fail_to_open(facts, EPERM, "libbitmaprdma: no memory can be shared");
                         }},
                        {"call_refused!",
                         [](Facts& facts) {
                           facts.host.calls[0].ends = true;
                           fail_to_open(facts, EPERM, "");
                         }},
                        {"open_failed! call_refused", [](Facts& facts) {
                           facts.host.calls[0] = {"process_vm_readv", EPERM, false, false, "data is sent"};
                           fail_to_open(facts, EIO, "libbitmaprdma: something else");
                         }}});
}

TEST(CheckFindings, OpeningADevice) {
  expect_each(sound(),
              {{"library_missing!",
                [](Facts& facts) {
                  facts.library.path.clear();
                  facts.library.error = "libbitmaprdma.so not found beside brdma; build it with: ninja -C build";
                  facts.probe = {};
                }},
               {"verbs_library_missing!",
                [](Facts& facts) {
                  facts.probe = {};
                  facts.probe.messages = {"brdma: libibverbs.so.1: cannot open shared object file"};
                }},
               {"port_taken!",
                [](Facts& facts) {
                  fail_to_open(facts, EADDRINUSE, "libbitmaprdma: UDP port 4791 is taken by python3 (pid 7)");
                }},
               {"daemon_other_user!",
                [](Facts& facts) {
                  fail_to_open(facts, EPERM,
                               "libbitmaprdma: brdmad (pid 7) in this network namespace belongs to alice (uid 7)");
                }},
               {"port_blocked!",
                [](Facts& facts) {
                  facts.probe.opened[0].transferred = false;
                  facts.probe.opened[0].error = ETIMEDOUT;
                  facts.probe.opened[0].step = "a WRITE to itself";
                }},
               {"daemon_missing!", [](Facts& facts) { facts.daemon.program_error = "BRDMA_DAEMON names /x"; }},
               {"daemon_silent!", [](Facts& facts) { facts.daemon.error = ETIMEDOUT; }},
               {"daemon_version!",
                [](Facts& facts) {
                  facts.daemon.answers = true;
                  facts.daemon.lease_protocol = 5;
                }},
               {"",
                [](Facts& facts) {
                  facts.daemon.answers = true;
                  facts.daemon.lease_protocol = 6;
                }},
               {"open_failed!", [](Facts& facts) { fail_to_open(facts, EIO, "libbitmaprdma: a reason of its own"); }},
               {"open_failed!", [](Facts& facts) { facts.probe = {}; }}});
}

TEST(CheckFindings, TheLibrarysOwnSentenceIsShown) {
  Facts facts = sound();
  fail_to_open(facts, EIO, "libbitmaprdma: a reason of its own");
  const auto findings = find_all(facts);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].what, HasSubstr("ibv_open_device of brdma_eth0"));
  EXPECT_THAT(findings[0].what, HasSubstr("a reason of its own"));
}

TEST(CheckFindings, Settings) {
  expect_each(
      sound(),
      {{"setting_unknown!",
        [](Facts& facts) {
          facts.configuration.own = {{"BRDMA_DEPTHMAX", "3"}};
        }},
       {"",
        [](Facts& facts) {
          facts.configuration.own = {{"BRDMA_DEPTH_MAX", "3"}};
        }},
       {"",
        [](Facts& facts) {
          facts.configuration.own = {{"BRDMA_BUILD_DIR", "/tmp"}};
        }},
       {"setting_unknown!",
        [](Facts& facts) { facts.configuration.errors = {"/etc/bitmaprdma.toml:2: there is no setting recovery.x"}; }},
       {"setting_value!", [](Facts& facts) { facts.configuration.errors = {"BRDMA_WINDOW: '9' is not allowed"}; }}});
}

TEST(CheckFindings, TheNearestSettingIsNamed) {
  Facts facts = sound();
  facts.configuration.own = {{"BRDMA_DEPTHMAX", "3"}};
  EXPECT_THAT(find_setting_unknown(facts)->next, HasSubstr("BRDMA_DEPTH_MAX"));
  facts.configuration.own = {{"BRDMA_ENTIRELY_OTHER", "3"}};
  EXPECT_THAT(find_setting_unknown(facts)->next, HasSubstr("system show config"));
  facts.configuration.own.clear();
  facts.configuration.errors = {"file:2: there is no setting recovery.depthmax"};
  EXPECT_THAT(find_setting_unknown(facts)->next, HasSubstr("recovery.depth_max"));
  EXPECT_EQ(nearest("abc", std::vector<std::string>{"abd", "xyz"}), "abd");
  EXPECT_EQ(nearest("abc", std::vector<std::string>{"xyz"}), "");
  EXPECT_EQ(nearest("", std::vector<std::string>{"xyz"}), "");
}

TEST(CheckFindings, Programs) {
  expect_each(sound_with_program(),
              {{"program_missing!", [](Facts& facts) { facts.program->path.clear(); }},
               {"program_missing!", [](Facts& facts) { facts.program->readable = false; }},
               {"program_static!", [](Facts& facts) { facts.program->is_static = true; }},
               {"program_privileged!", [](Facts& facts) { facts.program->changes_user = true; }},
               {"program_privileged!", [](Facts& facts) { facts.program->has_capabilities = true; }},
               {"program_architecture!", [](Facts& facts) { facts.program->other_machine = true; }}});
}

TEST(CheckFindings, ThePathToAPeer) {
  expect_each(sound_with_peer(),
              {{"peer_unreachable!",
                [](Facts& facts) {
                  facts.peer = Peer{};
                  facts.peer->error = "no connection";
                  facts.peer->error_key = "peer_unreachable";
                }},
               {"peer_failed!",
                [](Facts& facts) {
                  facts.peer->error = "a work request failed";
                  facts.peer->error_key = "peer_failed";
                }},
               {"port_blocked_to_peer!", [](Facts& facts) { facts.peer->to_peer = {4, 0, 0, 0, 0, 0, 0}; }},
               {"port_blocked_from_peer!", [](Facts& facts) { facts.peer->from_peer = {4, 0, 0, 0, 0, 0, 0}; }},
               {"path_mtu!",
                [](Facts& facts) {
                  facts.peer->to_peer.path_mtu = 1024;
                  facts.peer->error = "a work request failed";  // for that reason
                  facts.peer->error_key = "peer_failed";
                }},
               {"path_mtu!", [](Facts& facts) { facts.peer->from_peer.path_mtu = 2048; }},
               {"mtu_differs",
                [](Facts& facts) {
                  facts.peer->mtu = 1024;
                  facts.peer->to_peer.path_mtu = facts.peer->from_peer.path_mtu = 1024;
                }},
               {"peer_version", [](Facts& facts) { facts.peer->version = "0.0.9"; }},
               {"loss", [](Facts& facts) { facts.peer->to_peer.received = 1998; }},
               {"", [](Facts& facts) { facts.peer->to_peer.received = 1999; }},
               {"loss", [](Facts& facts) { facts.peer->from_peer.received = 1000; }},
               {"reordering", [](Facts& facts) { facts.peer->from_peer.reordered = 2; }},
               {"", [](Facts& facts) { facts.peer->from_peer.reordered = 1; }},
               {"bitmap_not_agreed", [](Facts& facts) { facts.peer->mode = "standard"; }},
               {"slower_than_tcp", [](Facts& facts) { facts.peer->to_peer.mbps = 499; }},
               {"", [](Facts& facts) { facts.peer->to_peer.mbps = 500; }},
               {"", [](Facts& facts) { facts.peer->to_peer.mbps = 0; }}});
}

TEST(CheckFindings, ErrorsComeFirst) {
  Facts facts = sound();
  facts.host.processors = 1;
  facts.configuration.own = {{"BRDMA_DEPTHMAX", "3"}};
  const auto findings = find_all(facts);
  EXPECT_EQ(text_of(findings), "setting_unknown! one_processor");
  EXPECT_TRUE(has_error(findings));
  EXPECT_FALSE(has_error(std::vector<Finding>{findings[1]}));
}

}  // namespace
}  // namespace brdma::check
