// Context::open() and open_shards(): leases, and settings as configured.
#include <sched.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "control/config.h"
#include "io/shard/open_context.h"
#include "io/system/fault_handler.h"
#include "io/system/secret_seed.h"

namespace brdma {
namespace {

static_assert(control::kShardsMax == kShardsMax);

unsigned usable_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? static_cast<unsigned>(CPU_COUNT(&cores)) : 1;
}

Result<io::ContextImpl::Options, ContextError> options_of(const control::Settings& settings, const DeviceInfo& device) {
  const Result<Seed, ContextError> seed = settings.seed ? Seed{*settings.seed} : io::secret_seed();
  if (!seed) return seed.reason();
  io::ContextImpl::Options options;
  options.recovery = settings.recovery;
  options.recovery.congestion.port_rate_mbps =
      settings.port_rate_mbps != 0 ? settings.port_rate_mbps : static_cast<std::uint32_t>(device.speed_mbps);
  options.transfer = settings.transfer;
  options.reads_processes = true;
  options.control_thread = true;
  options.datapath = settings.datapath;
  options.seed = seed.value();
  return options;
}

}  // namespace

Result<std::unique_ptr<Context>, ContextError> Context::open(const DeviceInfo& device, NotificationHandler* handler) {
  io::keep_fault_handler();
  auto lease = io::acquire_lease(device);
  if (!lease) return lease.reason();
  const control::Settings settings = control::load_settings_or_warn(lease.value().settings);
  const auto options = options_of(settings, device);
  if (!options) return options.reason();
  return Impl::make(device, std::move(lease).value(), options.value(), handler);
}

// One seed for all: the same keys (memory/memory_table.h).
Result<std::vector<std::unique_ptr<Context>>, ContextError> Context::open_shards(const DeviceInfo& device,
                                                                                 NotificationHandler* handler) {
  io::keep_fault_handler();
  auto lease = io::acquire_lease(device);
  if (!lease) return lease.reason();
  const control::Settings settings = control::load_settings_or_warn(lease.value().settings);
  auto read = options_of(settings, device);
  if (!read) return read.reason();
  Impl::Options options = std::move(read).value();
  if (settings.datapath.shards > 1) {
    options.share = std::make_shared<io::DeviceShare>(io::spinning_max(usable_cores()));
  }
  std::vector<std::unique_ptr<Context>> shards;
  for (;;) {
    auto made = Impl::make(device, std::move(lease).value(), options, handler);
    if (!made) return made.reason();
    shards.push_back(std::move(made).value());
    if (shards.size() == settings.datapath.shards) return shards;
    ++options.shard;
    lease = io::acquire_lease(device);
    if (lease) continue;
    if (lease.reason().error == ENOSPC) return shards;
    return lease.reason();
  }
}

}  // namespace brdma
