// brdmad/lease_link.h - asks the process behind a lease over the lease's connection (io/management.h has the
// questions). Each question has a number of its own; an answer to none that is open (late, or to a worker before us) is
// thrown away.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace brdma::daemon {

class LeaseLink {
 public:
  using Json = nlohmann::ordered_json;
  using Write = std::function<bool(std::string_view text)>;
  using Done = std::function<void(Json answer)>;

  LeaseLink(std::uint32_t slot, Write write) : slot_(slot), write_(std::move(write)) {}

  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  // `done` is called once, later: with the answer, or with an "error" when the process does not read, or ends. Who is
  // tired of waiting calls give_up() with what ask() answered.
  std::uint64_t ask(Json question, Done done);
  // What needs no answer. False: the process does not read.
  [[nodiscard]] bool tell(const Json& news);
  void give_up(std::uint64_t id);

  // Takes the whole lines at the beginning of `input`.
  void take_lines(std::string& input);
  void end();  // the process is gone

 private:
  void take_answer(std::string_view line);

  std::uint32_t slot_;
  Write write_;
  std::map<std::uint64_t, Done> open_;
};

}  // namespace brdma::daemon
