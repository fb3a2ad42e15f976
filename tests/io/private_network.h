// tests/io/private_network.h - the network namespaces of these tests: their port 4791 is free. As root a network
// namespace; else a user namespace with one inside, where this process is root of that network only.
#pragma once

#include <string>

namespace brdma::test {

// Moves the process (before it has threads) into a network namespace of its own with loopback up. False: the system
// refuses (user namespaces forbidden).
bool enter_private_network();

// A second namespace, joined to the first by a veth pair: 10.9.0.1/24 and fd09::1/64 here on `left`, 10.9.0.2/24 and
// fd09::2/64 there on `right`. Gone with the object.
class SecondNetwork {
 public:
  explicit SecondNetwork(unsigned mtu = 9000);
  ~SecondNetwork();
  SecondNetwork(const SecondNetwork&) = delete;
  SecondNetwork& operator=(const SecondNetwork&) = delete;
  [[nodiscard]] bool ready() const { return ready_; }

  // Sockets that this thread makes in the object's life time lie in the second namespace.
  class Visit {
   public:
    explicit Visit(const SecondNetwork& network);
    ~Visit();
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;

   private:
    int home_;
  };

 private:
  int home_ = -1, there_ = -1;
  bool ready_ = false;
};

// Waits until the system uses a link that was set up; it drops earlier packets. False: it never does.
[[nodiscard]] bool wait_until_running(const char* name);

// Runs an `ip` command line in the calling thread's namespace; true: exit code 0.
bool ip(const std::string& arguments);

}  // namespace brdma::test
