// verbs_integrity - moves data by every RC operation between two hosts and checks every byte.
//   server: verbs_integrity [options]      client: verbs_integrity [options] SERVER
#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "rounds.h"

namespace {

void usage() {
  std::puts(
      "verbs_integrity [-d DEVICE] [-p PORT] [-s SEED] [-n ROUNDS] [-S MAX_BYTES] [-e] [-t SECONDS] [SERVER]\n"
      "  -e  sleep on a completion channel instead of polling\n"
      "  -t  give up after so many seconds (default 90)");
}

bool parse(int argc, char** argv, Options& options) {
  for (int c = 0; (c = getopt(argc, argv, "d:p:s:n:S:et:h")) != -1;) {
    switch (c) {
      case 'd':
        options.device = optarg;
        break;
      case 'p':
        options.port = static_cast<std::uint16_t>(std::strtoul(optarg, nullptr, 10));
        break;
      case 's':
        options.seed = std::strtoull(optarg, nullptr, 10);
        break;
      case 'n':
        options.rounds = static_cast<unsigned>(std::strtoul(optarg, nullptr, 10));
        break;
      case 'S':
        options.size_max = static_cast<unsigned>(std::strtoul(optarg, nullptr, 10));
        break;
      case 'e':
        options.events = true;
        break;
      case 't':
        options.timeout_s = static_cast<unsigned>(std::strtoul(optarg, nullptr, 10));
        break;
      default:
        return false;
    }
  }
  if (optind < argc) options.address = argv[optind++];
  return optind == argc;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    usage();
    return 2;
  }
  alarm(options.timeout_s);  // a hang is a failure: SIGALRM ends the program
  try {
    ControlChannel control(options.address, options.port);
    Endpoint endpoint(options, control);
    const Totals totals = run_rounds(options, endpoint, control);
    control.meet(0xFFFF'FFFF);
    std::printf("verbs_integrity: seed %llu, %u rounds, %llu operations, %llu bytes, every byte right\n",
                static_cast<unsigned long long>(options.seed), options.rounds,
                static_cast<unsigned long long>(totals.operations), static_cast<unsigned long long>(totals.bytes));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verbs_integrity: seed %llu: %s\n", static_cast<unsigned long long>(options.seed),
                 error.what());
    return 1;
  }
}
