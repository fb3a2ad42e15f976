// io/management/management.h - a process's answers to its brdmad about its engine: one JSON object a line, one back
// with the same `id`. They travel on the lease's connection; io/management/control_thread.h reads it.
//
//   {"id":1,"do":"recovery","qp":N}                        settings in force; without "qp": for queue pairs made now
//   {"id":1,"do":"set","qp":N,"settings":{"KEY":VALUE}}    changes them; without "qp": for all, and those made later
//   {"id":1,"do":"queue_pairs","qp":N}                     their state: all, or one
//   {"id":1,"do":"statistics","qp":N}                      their counters
//   {"id":1,"do":"gaps","qp":N}  {"id":1,"do":"duplicates","qp":N}   their records: of all queue pairs, or of one
//   {"id":1,"do":"retransmit","qp":N,"psn":P,"count":C}    retransmits unacknowledged packets; "gaps":true:
//                                                          gaps count as lost. Without "psn": all
//   {"id":1,"do":"objects"}                                number of each kind; the sockets that packets come by
//   {"id":1,"do":"completion_queues"}  {"id":1,"do":"memory_regions"}
//   {"id":1,"do":"protection_domains"}  {"id":1,"do":"shared_receive_queues"}
//   {"id":1,"do":"link_reports"}                           links' reports, for the controller; once
//   {"id":1,"do":"managed"}                                destinations on the managed list
//   {"id":1,"do":"manage","destination":"10.0.0.1"}        puts one there; "changed": false where nothing is sent there
//   {"id":1,"do":"release","destination":"10.0.0.1"}       takes it off; "changed": false where it is not there
//   {"do":"lower","destination":"10.0.0.1"}                not a question: a control packet of the controller
//   {"do":"icmp","messages":["0400..."]}                   not a question: ICMP messages about sent packets, each
//                                                          in hexadecimal, from the ICMP header on
//
// Answers about queue pairs or memory regions contain keys and PSNs, by which packets could be forged, only with
// "keys":true: brdmad sets it for users who may know them.
// Errors: {"id":1,"error":{"errno":N,"message":"..."}}. The engine's lock is held for some dozen queue pairs at a time,
// never during a write: the data path does not wait for a manager.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/shard/shard.h"

namespace brdma::io {

class Management {
 public:
  // `tells_memory` false: another shard of the device reports the memory regions.
  explicit Management(Shard& shard, bool tells_memory = true) : shard_(shard), tells_memory_(tells_memory) {}

  // The answer with its line feed; empty where `line` is not a question. Throws only std::bad_alloc.
  [[nodiscard]] std::string answer(std::string_view line);

 private:
  using Json = nlohmann::ordered_json;
  void take_icmp(const Json& news);
  [[nodiscard]] Json reply_to(const std::string& question, const Json& request);
  // Each replies to the question of its name.
  [[nodiscard]] Json recovery(const Json& request);
  [[nodiscard]] Json set(const Json& request);
  [[nodiscard]] Json queue_pairs(const Json& request);
  [[nodiscard]] Json statistics(const Json& request);
  // management_records.cc
  [[nodiscard]] Json gaps(const Json& request);
  [[nodiscard]] Json duplicates(const Json& request);
  [[nodiscard]] Json retransmit(const Json& request);

  [[nodiscard]] Json objects(const Json& request);
  [[nodiscard]] Json completion_queues(const Json& request);
  [[nodiscard]] Json memory_regions(const Json& request);
  [[nodiscard]] Json protection_domains(const Json& request);
  [[nodiscard]] Json shared_receive_queues(const Json& request);
  // management_wan.cc
  [[nodiscard]] Json link_reports(const Json& request);
  [[nodiscard]] Json managed(const Json& request);
  [[nodiscard]] Json manage(const Json& request);
  [[nodiscard]] Json release(const Json& request);
  void take_control_packet(const Json& news);
  Status change_managed(const IpAddress& peer, Status (Engine::*change)(const IpAddress&, Instant));

  [[nodiscard]] Json datapath() const;
  [[nodiscard]] const char* transmits_by() const;
  [[nodiscard]] std::vector<std::uint32_t> numbers_of(const Json& request);  // one queue pair, or all
  // The next queue pairs, from `at` on: some dozen, so that the lock is not held for long.
  void read_reports(const std::vector<std::uint32_t>& numbers, std::size_t& at, std::vector<QueuePairReport>& reports);
  [[nodiscard]] Json queue_pair_rows(const Json& request, Json (*row)(const QueuePairReport&));
  [[nodiscard]] std::vector<MemoryRegion> regions();  // lock held

  Shard& shard_;
  bool tells_memory_;
};

}  // namespace brdma::io
