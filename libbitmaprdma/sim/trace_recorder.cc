#include "sim/trace_recorder.h"

#include <algorithm>
#include <utility>

#include "trace/text.h"

namespace brdma::sim {
namespace {

bool selects(std::string_view filter, std::string_view text) {
  const std::size_t colon = filter.find(':');
  if (!text.starts_with(filter.substr(0, colon))) return false;
  if (colon == std::string_view::npos) return true;
  std::string field{"="};
  field += filter.substr(colon + 1);
  for (std::size_t at = text.find(field); at != std::string_view::npos; at = text.find(field, at + 1)) {
    const std::size_t end = at + field.size();
    if (end == text.size() || text[end] == ' ') return true;
  }
  return false;
}

}  // namespace

std::uint16_t TraceRecorder::add_host(std::string name) {
  hosts_.push_back(std::move(name));
  return static_cast<std::uint16_t>(hosts_.size() - 1);
}

void TraceRecorder::record(std::uint16_t host, Instant when, std::uint32_t qpn, const trace::Event& event) {
  if (records_.size() == kRecordsMax) {
    records_.erase(records_.begin(), records_.begin() + kRecordsMax / 2);
    forgotten_ += kRecordsMax / 2;
  }
  records_.push_back({when, qpn, host, event});
}

std::string TraceRecorder::full_trace() const {
  std::string text;
  if (forgotten_ != 0) text = "(" + std::to_string(forgotten_) + " earlier records forgotten)\n";
  for (const Record& record : records_) {
    std::string line = trace::line(record.when, record.qpn, record.event);
    text += line.insert(line.find(' ') + 1, hosts_[record.host] + " ") + "\n";
  }
  return text;
}

std::string TraceRecorder::story(std::initializer_list<std::string_view> filters) const {
  std::string story{"\n"};
  for (const Record& record : records_) {
    const std::string text = trace::text(record.event);
    const bool selected =
        std::any_of(filters.begin(), filters.end(), [&](auto filter) { return selects(filter, text); });
    if (selected) story += hosts_[record.host] + " " + text + "\n";
  }
  return story;
}

}  // namespace brdma::sim
