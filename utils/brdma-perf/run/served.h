// run/served.h - a client as its server sees it: agrees with it, takes its messages, looks at what is in memory at the
// end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/channel.h"
#include "run/checker.h"
#include "run/greeting.h"
#include "values/options.h"
#include "values/results.h"
#include "verbs/rdma_cm.h"

namespace brdma::perf {

class Served {
 public:
  // Reads the plan. Throws RunError, after it was reported to the peer.
  Served(Loop& loop, std::unique_ptr<Channel> channel);
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  ~Served();

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] std::string name() const { return channel_->peer_address(); }
  // Makes and connects the queue pairs. Throws RunError, after it was reported to the peer.
  void connect(const Options& options);
  void begin() { channel_->send({{"go", true}}); }

  // Handles up to a batch of completions. Returns whether there were any.
  bool work();
  // Nobody polls for it: the server's processor is not part of what is measured, or the client wants it so.
  [[nodiscard]] bool sleeps() const { return plan_.sleeping || passive_; }
  void arm() { endpoint_->arm(); }
  [[nodiscard]] bool has_event() const { return endpoint_->has_event() || channel_->has_news(); }
  // Takes the client's last message if it has come, and answers it. True: this client's run is over.
  bool finish();

  [[nodiscard]] ClientShare share() const { return {name(), megabytes_}; }
  [[nodiscard]] const CheckTotals& checks() const { return checker_.totals(); }
  [[nodiscard]] const std::string& first_flaw() const { return checker_.first_flaw(); }

 private:
  void connect_by_tcp(const Options& options);
  void connect_by_cm();
  void prepare();
  void handle(const ibv_wc& completion);
  void take_send(const ibv_wc& completion, std::uint32_t lane, std::uint32_t slot);
  void take_checked_write(const ibv_wc& completion, std::uint32_t lane, std::uint32_t slot);
  void take_rest(const std::vector<LaneCount>& counts);
  void look_at(std::uint32_t lane, const LaneCount& count);
  void report(const std::string& error);

  Loop& loop_;
  std::unique_ptr<Channel> channel_;
  Plan plan_;
  bool passive_ = false;
  std::unique_ptr<CmServer> cm_;
  std::optional<Device> device_;
  std::unique_ptr<Endpoint> endpoint_;
  Checker checker_;
  std::vector<LaneCount> received_;
  double megabytes_ = 0;
};

}  // namespace brdma::perf
