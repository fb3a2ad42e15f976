#include "private_network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace brdma::test {
namespace {

bool write_file(const char* path, const std::string& text) {
  std::ofstream file{path};
  file << text;
  return static_cast<bool>(file.flush());
}

bool loopback_up() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  bool up = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  up = up && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
  close(fd);
  return up;
}

int open_own_network() { return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC); }

}  // namespace

bool enter_private_network() {
  const uid_t uid = getuid();
  const gid_t gid = getgid();
  if (unshare(CLONE_NEWNET) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    if (!write_file("/proc/self/setgroups", "deny")) return false;
    if (!write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1")) return false;
    if (!write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1")) return false;
  }
  return loopback_up();
}

// The system activates a new link in a work queue, which a busy machine runs late. It does so under the lock of link
// changes, so after one more change it is done.
bool wait_until_running(const char* name) {
  constexpr int kTriesMax = 10'000'000;
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  std::strcpy(request.ifr_name, name);
  bool running = false;
  for (int i = 0; i < kTriesMax && !running; ++i) {
    running = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) != 0;
    if (!running) sched_yield();
  }
  close(fd);
  return running && ip(std::string{"link set "} + name + " up");
}

bool ip(const std::string& arguments) { return std::system(("ip " + arguments).c_str()) == 0; }

SecondNetwork::SecondNetwork(unsigned mtu) : home_(open_own_network()) {
  if (home_ < 0 || unshare(CLONE_NEWNET) != 0) return;
  there_ = open_own_network();
  const std::string there = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(there_);
  const std::string size = " mtu " + std::to_string(mtu);
  bool done = loopback_up();
  if (setns(home_, CLONE_NEWNET) != 0) std::abort();  // nothing after this would be valid
  // `nodad`: an address is usable at once. Duplicate detection would make the first second random.
  done = done &&
         ip("link add left address 02:00:00:00:09:01" + size + " type veth peer name right address 02:00:00:00:09:02" +
            size) &&
         ip("address add 10.9.0.1/24 dev left") && ip("address add fd09::1/64 dev left nodad") &&
         ip("link set right netns " + there) && ip("link set left up");
  {
    const Visit visit{*this};
    done = done && ip("address add 10.9.0.2/24 dev right") && ip("address add fd09::2/64 dev right nodad") &&
           ip("link set right up") && wait_until_running("right");
  }
  ready_ = done && wait_until_running("left");
}

SecondNetwork::~SecondNetwork() {
  ip("link delete left 2>/dev/null");
  if (there_ >= 0) close(there_);
  if (home_ >= 0) close(home_);
}

SecondNetwork::Visit::Visit(const SecondNetwork& network) : home_(open_own_network()) {
  if (setns(network.there_, CLONE_NEWNET) != 0) std::abort();
}

SecondNetwork::Visit::~Visit() {
  if (setns(home_, CLONE_NEWNET) != 0) std::abort();
  close(home_);
}

}  // namespace brdma::test
