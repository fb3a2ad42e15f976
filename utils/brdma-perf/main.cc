// brdma-perf - measures an RDMA device: docs/howto/perf.md. `brdma perf` runs it.
#include <csignal>
#include <cstdio>
#include <exception>

#include "run/client.h"
#include "run/output.h"
#include "run/server.h"
#include "values/compare.h"
#include "values/options.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

int compare_files(const Options& options) {
  const Json comparison = compare(read_results(options.compare[0]), read_results(options.compare[1]));
  print(options.json ? comparison.dump() + "\n" : compare_text(comparison));
  return 0;
}

int run(const Options& options) {
  switch (options.kind) {
    case Options::Kind::kDone:
      return options.exit_code;
    case Options::Kind::kCompare:
      return compare_files(options);
    case Options::Kind::kServer: {
      Loop loop;
      return run_server(loop, options);
    }
    case Options::Kind::kClient: {
      Loop loop;
      return run_client(loop, options);
    }
  }
  return 2;
}

}  // namespace
}  // namespace brdma::perf

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return brdma::perf::run(brdma::perf::parse_options(argc, argv));
  } catch (const brdma::perf::Misuse& error) {
    std::fprintf(stderr, "brdma perf: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "brdma perf: %s\n", error.what());
    return 1;
  }
}
