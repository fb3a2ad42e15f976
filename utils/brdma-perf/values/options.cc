#include "values/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "values/samples.h"

namespace brdma::perf {
namespace {

// The words of the command line before they are understood.
struct Words {
  std::string operation, mode, address;
  std::string size, time, warmup, interval, every;
  std::uint32_t depth = 0, queue_pairs = 0, crc_every = 0;
};

constexpr const char* kFooter =
    "\nThe server has no ADDRESS; only its -p, -d, -i, -x, --ours and -j count, the client's words decide the "
    "rest.\n"
    "  brdma perf server                    serves runs until interrupted\n"
    "  brdma perf write bw                  serves one run; also as: brdma lab pair --loss 1% -- brdma perf write bw\n"
    "  brdma perf write bw 10.77.0.1        the client, which prints the results\n"
    "OPERATION: write, read, send, atomic (fetch and add)    MODE: bw (default), lat, rate, fct (flow completion "
    "times)\n"
    "\nExit codes: 0 done, 1 failed (the reason is on standard error; data that arrives wrong is a failure), 2 "
    "misuse.\n"
    "See: brdma-perf(1), docs/howto/perf.md";

void add_plan(CLI::App& app, Options& options, Words& words) {
  Plan& plan = options.plan;
  app.add_option("-s,--size", words.size, "bytes of a message: 64K; lat and rate: 8; fct: of the largest message");
  app.add_option("-t,--depth", words.depth, "messages in flight on a queue pair: 128")
      ->check(CLI::Range(1u, kDepthMax));
  app.add_option("-q,--qps", words.queue_pairs, "queue pairs: 1; fct: 4")->check(CLI::Range(1u, kQueuePairsMax));
  app.add_option("--load", plan.load, "lat: so many further queue pairs write 64 KiB messages all the time")
      ->check(CLI::Range(0u, kQueuePairsMax));
  app.add_option("--clients", plan.clients, "incast: the run begins when so many clients are there")
      ->check(CLI::Range(1u, kClientsMax));
  app.add_option("--crc", words.crc_every, "one message in so many has a CRC: 16; write: 16, or one in 1 MiB")
      ->check(CLI::Range(1u, 1u << 30));
  app.add_flag("-e,--events", plan.sleeping, "sleep until a completion instead of polling");
  app.add_flag("-R,--rdma-cm", plan.rdma_cm, "connect the queue pairs by RDMA-CM");
  app.add_option("--seed", plan.seed, "of the pattern and of the flows")->capture_default_str();
}

void add_run(CLI::App& app, Options& options, Words& words) {
  app.add_option("-D,--time", words.time, "how long: 3s");
  app.add_option("-n,--count", options.messages, "so many messages, or flows, instead")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
  app.add_option("--warmup", words.warmup, "the first part that does not count; without: found in the series (MSER)");
  app.add_option("--interval", words.interval, "of goodput over time: 100ms");
  app.add_option("--sizes", options.sizes,
                 "fct: sizes of flows, FILE or a name: facebook_webserver, google_all_rpc_w3");
  app.add_option("--every", words.every,
                 "fct: mean time between flows (Poisson); without: the next when one is complete");
}

void add_place(CLI::App& app, Options& options) {
  app.add_option("-p,--port", options.port, "TCP port of the server")->capture_default_str();
  app.add_option("-d,--device", options.device, "RDMA device; without: the one that has the connection's address");
  app.add_option("-i,--ib-port", options.device_port, "its port")->check(CLI::Range(1, 255))->capture_default_str();
  app.add_option("-x,--gid", options.gid_index, "index of the GID")->check(CLI::Range(0, 65'535));
  app.add_flag("--ours", options.ours, "only devices of libbitmaprdma, whatever other devices there are");
  app.add_flag("-j,--json", options.json, "results in JSON");
  app.add_option("--svg", options.svg, "write a picture of the results to this file");
  app.add_option("--compare", options.compare, "two results of -j: what differs beyond noise")
      ->expected(2)
      ->type_name("A B");
}

template <std::size_t kCount>
std::size_t index_of(const std::string& word, const std::array<std::string_view, kCount>& names, const char* what) {
  const auto at = std::find(names.begin(), names.end(), word);
  if (at != names.end()) return static_cast<std::size_t>(at - names.begin());
  std::string known;
  for (const std::string_view name : names) known += " " + std::string{name};
  throw Misuse("unknown " + std::string{what} + " '" + word + "'; expected one of:" + known);
}

// `write 10.0.0.1`: the mode is left out.
void take_mode(Options& options, Words& words) {
  const bool named = std::find(kModeNames.begin(), kModeNames.end(), words.mode) != kModeNames.end();
  const bool looks_like_address = words.mode.find_first_of(".:0123456789") != std::string::npos;
  if (!named && words.address.empty() && looks_like_address) std::swap(words.mode, words.address);
  if (!words.mode.empty()) options.plan.mode = static_cast<Mode>(index_of(words.mode, kModeNames, "mode"));
}

void take_depth(Plan& plan, const Words& words) {
  // Large messages need fewer in flight: 64 MiB of them are enough.
  plan.depth = std::clamp((64u << 20) / plan.size, 2u, 128u);
  if (plan.mode == Mode::kLatency) plan.depth = 1;
  if (words.depth == 0) return;
  if (plan.mode == Mode::kLatency && words.depth > 1) throw Misuse("lat has one message in flight");
  plan.depth = words.depth;
}

void take_crc(Plan& plan, const Words& words) {
  const bool sampled = plan.operation == Operation::kWrite && plan.mode != Mode::kLatency;
  plan.crc_every = sampled ? std::clamp((1u << 20) / plan.size, 16u, 4096u) : 16;
  if (words.crc_every != 0) plan.crc_every = words.crc_every;
}

void take_sizes(Options& options, const Words& words) {
  Plan& plan = options.plan;
  const bool small = plan.mode == Mode::kLatency || plan.mode == Mode::kRate || plan.operation == Operation::kAtomic;
  plan.size = small ? 8 : 65'536;
  if (!words.size.empty()) {
    const std::uint64_t size = parse_bytes(words.size);
    if (size < 1 || size > kSizeMax) throw Misuse("--size: from 1 to 1G");
    plan.size = static_cast<std::uint32_t>(size);
  }
  plan.queue_pairs = words.queue_pairs != 0 ? words.queue_pairs : plan.mode == Mode::kFct ? 4 : 1;
  if (plan.mode == Mode::kLatency && words.queue_pairs > 1) throw Misuse("lat uses one queue pair; --load adds others");
  take_depth(plan, words);
  take_crc(plan, words);
}

void take_times(Options& options, const Words& words) {
  if (!words.time.empty()) options.duration = parse_time(words.time);
  if (!words.warmup.empty()) options.warmup = words.warmup == "0" ? 0 : parse_time(words.warmup);
  if (!words.interval.empty()) options.interval = parse_time(words.interval);
  if (!words.every.empty()) options.every = parse_time(words.every);
  if (!words.time.empty() && options.messages != 0) throw Misuse("--time and --count: choose one");
  if (options.interval < 1'000'000) throw Misuse("--interval: at least 1ms");
  if (options.messages == 0 && options.duration / options.interval > 100'000) {
    throw Misuse("--time has more than 100,000 intervals: raise --interval");
  }
  if (options.messages == 0 && options.warmup && *options.warmup >= options.duration) {
    throw Misuse("--warmup leaves nothing of --time");
  }
}

void understand(Options& options, Words& words) {
  if (!options.compare.empty()) {
    if (!words.operation.empty()) throw Misuse("--compare goes alone, with -j");
    options.kind = Options::Kind::kCompare;
    return;
  }
  if (words.operation.empty()) throw Misuse("expected: brdma perf server, or brdma perf OPERATION [MODE] [ADDRESS]");
  if (words.operation == "server") {
    if (!words.mode.empty()) throw Misuse("server takes no MODE and no ADDRESS: the client has them");
    options.serve_on = true;
    return;
  }
  options.plan.operation = static_cast<Operation>(index_of(words.operation, kOperationNames, "operation"));
  take_mode(options, words);
  options.address = words.address;
  options.kind = words.address.empty() ? Options::Kind::kServer : Options::Kind::kClient;
  take_sizes(options, words);
  take_times(options, words);
  const bool fct = options.plan.mode == Mode::kFct;
  if (!fct && (!options.sizes.empty() || options.every != 0)) throw Misuse("--sizes and --every go with fct");
  if (fct && options.sizes.empty()) options.sizes = "facebook_webserver";
  try {
    require_valid(options.plan);
  } catch (const RunError& error) {
    throw Misuse(error.what());
  }
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  CLI::App app{"Measures an RDMA device: any that libibverbs finds\n", "brdma perf"};
  app.set_version_flag("-V,--version", std::string("brdma-perf ") + BRDMA_VERSION);
  app.footer(kFooter);
  Options options;
  Words words;
  app.add_option("OPERATION", words.operation, "server, write, read, send or atomic");
  app.add_option("MODE", words.mode, "bw, lat, rate or fct");
  app.add_option("ADDRESS", words.address, "of the server");
  add_plan(app, options, words);
  add_run(app, options, words);
  add_place(app, options);
  options.kind = Options::Kind::kDone;
  try {
    app.parse(argc, argv);
    options.kind = Options::Kind::kServer;
    understand(options, words);
  } catch (const CLI::ParseError& error) {
    options.exit_code = app.exit(error) == 0 ? 0 : 2;
  } catch (const Misuse& error) {
    std::fprintf(stderr, "brdma perf: %s. See 'brdma perf --help'\n", error.what());
    options.kind = Options::Kind::kDone;
    options.exit_code = 2;
  }
  return options;
}

}  // namespace brdma::perf
