// The XDP program, run by the kernel on given frames (BPF_PROG_TEST_RUN), attached to nothing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <sys/socket.h>

#include <cerrno>
#include <initializer_list>
#include <vector>

#include "frames.h"
#include "io/system/file_descriptor.h"
#include "xdp/libbpf_names.h"
#include "xdp/xdp_steering.h"

namespace brdma::test {
namespace {

constexpr std::uint32_t kMtu = 1500, kSlot = 0x02;
using io::FileDescriptor;

// The destination of an accepted frame: TEST_RUN with a map entry that is no socket is not possible, so the sockets'
// map is one of device numbers here: redirect_map() returns the same.
class SteeringProgram : public testing::Test {
 protected:
  void SetUp() override {
    slots_.reset(bpf_map_create(BPF_MAP_TYPE_ARRAY, "slots", 4, 4, 4, nullptr));
    if (!slots_.valid() && errno == EPERM) GTEST_SKIP() << "needs CAP_BPF";
    targets_.reset(bpf_map_create(BPF_MAP_TYPE_DEVMAP, "targets", 4, 4, 4, nullptr));
    lessees_.reset(bpf_map_create(BPF_MAP_TYPE_ARRAY, "lessees", 4, 4, daemon::kExtraSlotsMax, nullptr));
    ASSERT_TRUE(slots_.valid() && targets_.valid() && lessees_.valid());
    const auto code = daemon::steering_program(slots_.get(), lessees_.get(), targets_.get(), kMtu);
    std::vector<char> log(65536);
    LIBBPF_OPTS(bpf_prog_load_opts, load);
    load.log_buf = log.data();
    load.log_size = static_cast<decltype(load.log_size)>(log.size());
    program_.reset(bpf_prog_load(BPF_PROG_TYPE_XDP, "steer", "Dual MIT/GPL", code.data(), code.size(), &load));
    ASSERT_TRUE(program_.valid()) << log.data();
    steer(0, kSlot);
  }

  void steer(std::uint32_t queue, std::uint32_t slot) {
    const std::uint32_t loopback = 1;
    ASSERT_EQ(bpf_map_update_elem(slots_.get(), &queue, &slot, BPF_ANY), 0);
    ASSERT_EQ(bpf_map_update_elem(targets_.get(), &queue, &loopback, BPF_ANY), 0);
  }

  void lend(std::uint32_t slot, std::uint32_t lessee) {
    daemon::XdpSteering steering;
    steering.lessees.reset(fcntl(lessees_.get(), F_DUPFD_CLOEXEC, 0));
    table_[slot - daemon::kExtraSlotsFirst] = lessee;
    ASSERT_TRUE(steering.set_lessees(table_).ok());
  }

  [[nodiscard]] std::uint32_t run(const std::vector<std::byte>& frame) const {
    LIBBPF_OPTS(bpf_test_run_opts, options);
    options.data_in = frame.data();
    options.data_size_in = static_cast<std::uint32_t>(frame.size());
    EXPECT_EQ(bpf_prog_test_run_opts(program_.get(), &options), 0) << errno;
    return options.retval;
  }

  FileDescriptor slots_, lessees_, targets_, program_;
  daemon::Lessees table_{};
};

TEST_F(SteeringProgram, TakesPacketsOfItsSlot) {
  for (const bool ipv6 : {false, true}) {
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x002002})), XDP_REDIRECT) << ipv6;
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0xFFE002})), XDP_REDIRECT) << ipv6;
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x002003})), XDP_PASS) << ipv6;
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x003002})), XDP_PASS) << "a slot with the same low byte";
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x000001})), XDP_PASS) << ipv6;
  }
}

TEST_F(SteeringProgram, TakesPacketsOfFurtherSlotsOfItsLease) {
  constexpr std::uint32_t kFirst = daemon::kExtraSlotsFirst, kLast = io::kSlotCount - 1;
  lend(kFirst, kSlot);
  lend(kFirst + 1, kSlot + 1);
  lend(kLast, kSlot);
  for (const bool ipv6 : {false, true}) {
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x002000 | kFirst})), XDP_REDIRECT) << ipv6;
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x002000 | kLast})), XDP_REDIRECT) << ipv6;
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x002000 | kSlot})), XDP_REDIRECT) << ipv6;
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x002000 | (kFirst - 1)})), XDP_PASS) << "a slot without lessees";
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x002000 | (kFirst + 1)})), XDP_PASS) << "another lease's";
    EXPECT_EQ(run(make_frame({.ipv6 = ipv6, .qpn = 0x002000 | (kFirst + 2)})), XDP_PASS) << "nobody's";
  }
  EXPECT_EQ(run(make_frame({.qpn = 0xFFFFFF})), XDP_PASS) << "multicast, whose low bits are the last slot's";
  lend(kLast, 0);
  EXPECT_EQ(run(make_frame({.qpn = 0x002000 | kLast})), XDP_PASS) << "it has been given back";
  lend(kFirst, kSlot + 1);
  EXPECT_EQ(run(make_frame({.qpn = 0x002000 | kFirst})), XDP_PASS) << "another lease has it now";
}

// With thousands of leases the last slots are leased themselves.
TEST_F(SteeringProgram, TakesPacketsOfALeasedSlotAmongTheLast) {
  steer(0, daemon::kExtraSlotsFirst);
  EXPECT_EQ(run(make_frame({.qpn = 0x002000 | daemon::kExtraSlotsFirst})), XDP_REDIRECT);
  EXPECT_EQ(run(make_frame({.qpn = 0x002000 | (daemon::kExtraSlotsFirst + 1)})), XDP_PASS);
}

TEST_F(SteeringProgram, LeavesMulticastToTheKernelWhateverTheSlot) {
  steer(0, 0x1FFF);
  EXPECT_EQ(run(make_frame({.qpn = 0x003FFF})), XDP_REDIRECT);
  EXPECT_EQ(run(make_frame({.qpn = 0xFFFFFF})), XDP_PASS);
}

TEST_F(SteeringProgram, LeavesOtherTrafficToTheKernel) {
  EXPECT_EQ(run(make_frame({.port = 4792})), XDP_PASS);
  EXPECT_EQ(run(make_frame({.ipv6 = true, .port = 53})), XDP_PASS);
  auto frame = make_frame();
  store_be16(&frame[12], 0x0806);  // ARP
  EXPECT_EQ(run(frame), XDP_PASS);
  store_be16(&frame[12], 0x8100);  // VLAN
  EXPECT_EQ(run(frame), XDP_PASS);
  for (const bool ipv6 : {false, true}) {
    auto tcp = make_frame({.ipv6 = ipv6});
    tcp[ipv6 ? 20 : 23] = std::byte{6};
    EXPECT_EQ(run(tcp), XDP_PASS);
  }
}

TEST_F(SteeringProgram, LeavesOptionsAndFragmentsToTheKernel) {
  auto options = make_frame();
  options[14] = std::byte{0x46};
  EXPECT_EQ(run(options), XDP_PASS);
  for (const std::uint16_t fragment : std::initializer_list<std::uint16_t>{0x2000, 0x0001, 0x1FFF}) {
    auto frame = make_frame();
    store_be16(&frame[20], fragment);
    EXPECT_EQ(run(frame), XDP_PASS) << fragment;
  }
  auto whole = make_frame();
  store_be16(&whole[20], 0x4000);  // "don't fragment"
  EXPECT_EQ(run(whole), XDP_REDIRECT);
}

TEST_F(SteeringProgram, LeavesShortFramesToTheKernel) {
  for (const bool ipv6 : {false, true}) {
    const auto whole = make_frame({.ipv6 = ipv6, .payload = 12});
    EXPECT_EQ(run(whole), XDP_REDIRECT);
    for (std::size_t size = 14; size < whole.size(); ++size) {
      EXPECT_EQ(run({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), XDP_PASS) << size;
    }
  }
}

// Several packets in one frame that the sender's kernel did not split: only the kernel knows the length of each.
TEST_F(SteeringProgram, LeavesFramesLongerThanTheMtuToTheKernel) {
  const auto of_ip_length = [](std::size_t length, bool ipv6) {
    return make_frame({.ipv6 = ipv6, .payload = length - (ipv6 ? 48 : 28)});
  };
  for (const bool ipv6 : {false, true}) {
    EXPECT_EQ(run(of_ip_length(kMtu, ipv6)), XDP_REDIRECT);
    EXPECT_EQ(run(of_ip_length(kMtu + 1, ipv6)), XDP_PASS);
  }
}

TEST_F(SteeringProgram, LeavesAllToTheKernelOnceItsSocketIsGone) {
  const std::uint32_t queue = 0;
  ASSERT_EQ(bpf_map_delete_elem(targets_.get(), &queue), 0);
  EXPECT_EQ(run(make_frame()), XDP_PASS);
}

}  // namespace
}  // namespace brdma::test
