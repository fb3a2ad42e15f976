// io/management/management_answers.h - private: shared by the files of io/management/management.h.
#pragma once

#include <cerrno>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "io/daemon/lease_protocol.h"

namespace brdma::io {

inline constexpr std::size_t kRowsMax = 15'360;

// The rows of an answer, up to brdmad's limit.
class Rows {
 public:
  // False: no room, and the list is cut.
  bool add(nlohmann::ordered_json row) {
    if (cut_) return false;
    bytes_ += row.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace).size() + 1;
    cut_ = rows_.size() == kRowsMax || bytes_ > kManagementAnswerMax - kFrameBytes;
    if (!cut_) rows_.push_back(std::move(row));
    return !cut_;
  }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] nlohmann::ordered_json answer() && { return {{"rows", std::move(rows_)}, {"cut", cut_}}; }

 private:
  static constexpr std::size_t kFrameBytes = 4096;  // the rest of the answer
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
  std::size_t bytes_ = 0;
  bool cut_ = false;
};

[[nodiscard]] inline nlohmann::ordered_json error_json(int error, const std::string& message) {
  return {{"error", {{"errno", error}, {"message", message}}}};
}

[[nodiscard]] inline std::optional<std::uint32_t> number_of(const nlohmann::ordered_json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto number = found->get<std::uint64_t>();
  if (number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}
[[nodiscard]] inline std::optional<std::uint32_t> queue_pair_of(const nlohmann::ordered_json& request) {
  return number_of(request, "qp");
}

[[nodiscard]] inline nlohmann::ordered_json no_such_queue_pair(std::uint32_t qpn) {
  return error_json(ENOENT, "no queue pair " + std::to_string(qpn));
}

[[nodiscard]] inline bool shows_keys(const nlohmann::ordered_json& request) {
  const auto found = request.find("keys");
  return found != request.end() && *found == true;
}
inline void hide_keys(nlohmann::ordered_json& row) {
  for (const char* key : {"mrn", "lkey", "rkey", "iova", "rq-psn", "sq-psn", "receive_start_psn", "send_start_psn",
                          "psn", "send_base", "receive_highest", "send_bitmap", "receive_bitmap"})
    row.erase(key);
  for (const char* list : {"receive_paths", "response_paths"}) {
    if (const auto paths = row.find(list); paths != row.end())
      for (auto& path : *paths) path.erase("highest");
  }
}

}  // namespace brdma::io
