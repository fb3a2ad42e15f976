#include "control/statistics.h"

#include <nlohmann/json.hpp>
#include <string>

namespace brdma::control {
namespace {

// Applies f(word, ...) to each counter and each drop reason of the given statistics, in the order of the lists.
template <class F, class... S>
void for_each_word(F f, S&... statistics) {
  for (std::size_t i = 0; i < kCounterCount; ++i) f(statistics.counters[i]...);
  for (std::size_t i = 0; i < kDropReasonCount; ++i) f(statistics.drops[i]...);
}

}  // namespace

Statistics snapshot(const Statistics& live) {
  Statistics copy;
  for_each_word([](std::uint64_t& to, const std::uint64_t& from) { to = __atomic_load_n(&from, __ATOMIC_RELAXED); },
                copy, live);
  return copy;
}

void accumulate(Statistics& sum, const Statistics& part) {
  for_each_word([](std::uint64_t& to, const std::uint64_t& from) { to += from; }, sum, part);
}

Statistics difference(const Statistics& after, const Statistics& before) {
  Statistics result;
  for_each_word([](std::uint64_t& to, const std::uint64_t& a, const std::uint64_t& b) { to = a > b ? a - b : 0; },
                result, after, before);
  return result;
}

nlohmann::ordered_json to_json(const Statistics& statistics) {
  auto object = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kCounterCount; ++i) object[std::string(kCounterNames[i])] = statistics.counters[i];
  for (std::size_t i = 0; i < kDropReasonCount; ++i) object[std::string(kDropReasonNames[i])] = statistics.drops[i];
  return object;
}

bool from_json(const nlohmann::json& object, Statistics& statistics) {
  if (!object.is_object()) return false;
  const auto read = [&object](std::string_view key, std::uint64_t& word) {
    const auto found = object.find(key);
    if (found == object.end()) return true;
    if (!found->is_number_unsigned()) return false;
    word = found->get<std::uint64_t>();
    return true;
  };
  Statistics result;
  for (std::size_t i = 0; i < kCounterCount; ++i) {
    if (!read(kCounterNames[i], result.counters[i])) return false;
  }
  for (std::size_t i = 0; i < kDropReasonCount; ++i) {
    if (!read(kDropReasonNames[i], result.drops[i])) return false;
  }
  statistics = result;
  return true;
}

}  // namespace brdma::control
