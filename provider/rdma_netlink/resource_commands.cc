// Tables of objects: RES_GET and RES_..._GET.
#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "bitmaprdma/types.h"
#include "rdma_netlink/commands.h"

namespace brdma::provider::nldev {
namespace {

constexpr std::size_t kTableRoom = 3'500;  // entries of one message: far below kDatagramMax

struct Table {
  Operation operation;
  Resource resource;
  Attribute table, entry, number;
  bool of_port;  // a get names a port; else it must not
};
constexpr std::array kTables{
    Table{Operation::kQueuePairs, Resource::kQueuePair, Attribute::kQueuePair, Attribute::kQueuePairEntry,
          Attribute::kLocalQpn, true},
    Table{Operation::kCmIds, Resource::kCmId, Attribute::kCmId, Attribute::kCmIdEntry, Attribute::kCmIdn, true},
    Table{Operation::kCompletionQueues, Resource::kCompletionQueue, Attribute::kCompletionQueue,
          Attribute::kCompletionQueueEntry, Attribute::kCqn, false},
    Table{Operation::kMemoryRegions, Resource::kMemoryRegion, Attribute::kMemoryRegion, Attribute::kMemoryRegionEntry,
          Attribute::kMrn, false},
    Table{Operation::kProtectionDomains, Resource::kProtectionDomain, Attribute::kProtectionDomain,
          Attribute::kProtectionDomainEntry, Attribute::kPdn, false},
    Table{Operation::kContexts, Resource::kContext, Attribute::kContext, Attribute::kContextEntry, Attribute::kCtxn,
          false},
    Table{Operation::kSharedReceiveQueues, Resource::kSharedReceiveQueue, Attribute::kSharedReceiveQueue,
          Attribute::kSharedReceiveQueueEntry, Attribute::kSrqn, false},
};

const Table& table_of(Operation operation) {
  return *std::find_if(kTables.begin(), kTables.end(), [=](const Table& each) { return each.operation == operation; });
}

bool names_wrong_port(const Call& call) {
  const auto port = call.attributes.number(Attribute::kPortIndex);
  return port && *port != kPorts;
}

Part part_of(const Chosen& device, Operation operation, const Table& table, const Writer& entries) {
  Part part{operation, {}};
  put_handle(part.payload, device.index, device.info.name);
  part.payload.nest(table.table, entries.bytes());
  return part;
}

}  // namespace

Reply dump_resources(const Call& call, Operation operation) {
  const Chosen device = choose_device(call);
  if (device.error != 0 || names_wrong_port(call)) return refusal(EINVAL);
  const Table& table = table_of(operation);
  const auto all = call.source.entries(table.resource, device.info, call.asker.is_admin);
  if (!all) return refusal(all.reason());
  Reply reply;
  Writer entries;
  for (const Entry& entry : all.value()) {
    if (entries.size() != 0 && entries.size() + entry.attributes.size() > kTableRoom) {
      reply.parts.push_back(part_of(device, operation, table, entries));
      entries = {};
    }
    entries.nest(table.entry, entry.attributes);
  }
  if (entries.size() != 0) reply.parts.push_back(part_of(device, operation, table, entries));
  return reply;
}

Reply get_resource(const Call& call, Operation operation) {
  const Chosen device = choose_device(call);
  const Table& table = table_of(operation);
  const auto number = call.attributes.number(table.number);
  if (device.error != 0 || !number) return refusal(EINVAL);
  if (table.of_port != call.attributes.has(Attribute::kPortIndex) || names_wrong_port(call)) return refusal(EINVAL);
  const auto all = call.source.entries(table.resource, device.info, call.asker.is_admin);
  if (!all) return refusal(all.reason());
  for (const Entry& entry : all.value()) {
    if (entry.number != *number) continue;
    Reply reply;
    Part& part = reply.parts.emplace_back(Part{operation, {}});
    put_handle(part.payload, device.index, device.info.name);
    part.payload.attach(entry.attributes);
    return reply;
  }
  return refusal(ENOENT);
}

Reply get_summary(const Call& call) {
  const Chosen device = choose_device(call);
  if (device.error != 0) return refusal(device.error);
  const auto counts = call.source.summary(device.info);
  if (!counts) return refusal(counts.reason());
  constexpr std::array<std::string_view, kResources> kNames{"pd", "cq", "qp", "cm_id", "mr", "ctx", "srq"};
  Writer summary;
  for (std::size_t i = 0; i < kResources; ++i) {
    Writer entry;
    entry.text(Attribute::kSummaryName, kNames[i]);
    entry.u64(Attribute::kSummaryCurrent, counts.value()[i]);
    summary.nest(Attribute::kSummaryEntry, entry.bytes());
  }
  Reply reply;
  Part& part = reply.parts.emplace_back(Part{Operation::kSummary, {}});
  put_handle(part.payload, device.index, device.info.name);
  part.payload.nest(Attribute::kSummary, summary.bytes());
  return reply;
}

}  // namespace brdma::provider::nldev
