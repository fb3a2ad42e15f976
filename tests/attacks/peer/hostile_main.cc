// attack_peer - the hostile peer (hostile_peer.h); prints its actions as JSON, its seed first.
//   attack_peer OWN VICTIM SEED SECONDS        IPv4 addresses; nobody else may have UDP port 4791 there
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "hostile_peer.h"

int main(int count, char** words) {
  using Count = unsigned long long;
  if (count != 5) return 2;
  try {
    brdma::attacks::HostileOptions options{.own = words[1],
                                           .victim = words[2],
                                           .seed = std::strtoull(words[3], nullptr, 10),
                                           .seconds = std::atof(words[4])};
    brdma::attacks::HostilePeer peer{options};
    peer.run();
    const auto& f = peer.figures();
    std::printf(
        "{\"seed\":%llu,\"packets\":%llu,\"changed\":%llu,\"invented\":%llu,\"mads\":%llu,\"as_client\":%llu,"
        "\"as_server\":%llu,\"completed\":%llu,\"failed\":%llu,\"received\":%llu,\"leaks\":%llu}\n",
        Count{options.seed}, Count{f.packets}, Count{f.changed}, Count{f.invented}, Count{f.mads}, Count{f.as_client},
        Count{f.as_server}, Count{f.completed}, Count{f.failed}, Count{f.received}, Count{f.leaks});
    return f.leaks == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attack_peer: %s\n", error.what());
    return 1;
  }
}
