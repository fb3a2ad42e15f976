// tests/attacks/victim.h - a verbs program with a hostile peer and honest ones: a server for both, and a client of the
// hostile one. It offers memory (offer.h), works on its peers' offers, and checks all of its memory many times a
// second.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "offer.h"
#include "verbs_connection.h"
#include "victim_memory.h"

namespace brdma::attacks {

struct VictimOptions {
  std::string hostile;  // the peer to connect to, which gets the hostile offer
  std::uint64_t seed = 1;
  bool plant = false;  // offers too much: the checks must detect it
};

struct VictimFigures {
  std::uint64_t accepted = 0, connected = 0, honest = 0, messages = 0, completed = 0, failed = 0, looks = 0;
};

class Victim {
 public:
  explicit Victim(const VictimOptions& options);
  ~Victim();
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  // Until standard input ends, or a forbidden change: then a sentence.
  [[nodiscard]] std::string run();
  [[nodiscard]] const VictimFigures& figures() const { return figures_; }

 private:
  static constexpr std::size_t kBuffers = 160, kBufferBytes = 2048, kSessionsMax = 10;
  static constexpr std::size_t kWritableBytes = 65536, kReadableBytes = 65536, kHonestBytes = 262144;
  enum class Role : std::uint8_t { kHonest, kAccepted, kConnected };  // the latter two: of the hostile peer
  struct Session {
    std::unique_ptr<VerbsConnection> connection;
    Role role = Role::kAccepted;
    [[nodiscard]] bool honest() const { return role == Role::kHonest; }
    std::vector<std::size_t> buffers;  // open ones, by number
    double until = 0;
  };
  using Sessions = std::list<Session>;

  void make_memory(ibv_context* context);
  [[nodiscard]] Offer offer_to(bool honest) const;
  [[nodiscard]] bool is_hostile(rdma_cm_id* id) const;
  void take_events();
  void on_event(rdma_cm_id* id, rdma_cm_event_type type, const std::vector<std::uint8_t>& said);
  void on_request(rdma_cm_id* id, const std::vector<std::uint8_t>& said);
  void dial(double now);
  void on_route(rdma_cm_id* id);
  void work_on(Session& session, const Offer& offer);
  void post_receive(Session& session);
  void poll(Session& session);
  void take(Session& session, const ibv_wc& done);
  [[nodiscard]] std::optional<std::size_t> open_buffer(Session& session);
  void close_buffer(Session& session, std::size_t buffer);
  void end(Sessions::iterator session);
  void end_oldest(Role role);
  [[nodiscard]] Sessions::iterator find(const rdma_cm_id* id);
  [[nodiscard]] std::string look();
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return random_() % bound; }

  VictimOptions options_;
  VictimFigures figures_;
  std::mt19937_64 random_;
  VictimMemory memory_;
  VictimMemory::Area writable_, readable_, forbidden_, honest_, first_buffer_;
  std::vector<VictimMemory::Area> buffers_;
  std::deque<std::size_t> free_;
  ibv_pd *hostile_pd_ = nullptr, *honest_pd_ = nullptr;
  std::vector<ibv_mr*> regions_;
  ibv_mr *offered_[2][kOfferedRegions] = {}, *pool_[2] = {};
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id *listener_ = nullptr, *dialing_ = nullptr;
  double dialed_ = 0;
  Sessions sessions_;
};

}  // namespace brdma::attacks
