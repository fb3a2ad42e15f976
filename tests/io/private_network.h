// tests/io/private_network.h - the network namespaces that these tests run in: their port 4791 is nobody else's.
// As root a network namespace; else a user namespace with one inside, where we are root of no more than that network.
#pragma once

#include <string>

namespace brdma::test {

// Moves the process (before it has threads) into a network namespace of its own with loopback up. False: the system
// does not let us (user namespaces forbidden).
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

  // What this thread makes in the object's life time (sockets) lies in the second namespace.
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

// Until a link that was set up is in use by the system, which throws away what is sent before. False: it never is.
[[nodiscard]] bool wait_until_running(const char* name);

// Runs an `ip` command line in the calling thread's namespace; true: exit code 0.
bool ip(const std::string& arguments);

}  // namespace brdma::test
