#include "process_rows.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/nearest_word.h"

namespace brdma {
namespace {

bool matches(const Json& row, const Json& filters) {
  for (const auto& [key, wanted] : filters.items()) {
    const auto found = row.find(key);
    if (found == row.end()) return false;
    const std::string text = found->is_string() ? found->get<std::string>() : found->dump();
    if (text != wanted.get<std::string>()) return false;
  }
  return true;
}

// rdma(8) ends each record with its owner, whatever the row says of it.
Record record_of(const Json& row, const Json& answer, const std::string& heading, const OutputStyle& style) {
  const std::string device = answer.at("device");
  Record record{heading + " " + device + (heading == "link" ? "/1" : ""), Json::object()};
  if (style.complete()) {
    record.fields["ifname"] = device;
    if (heading == "link") record.fields["port"] = 1;
  }
  add_members(record.fields, row);
  record.fields.update({{"pid", answer.at("pid")}, {"comm", answer.at("comm")}});
  return record;
}

// Keys of all rows, so that a filter of none can be reported.
class KnownKeys {
 public:
  void add(const Json& row) {
    for (const auto& [key, value] : row.items()) keys_.insert(key);
  }
  void require(const Json& filters) const {
    if (keys_.empty()) return;  // without rows nothing is known
    for (const auto& [key, wanted] : filters.items()) {
      if (keys_.contains(key)) continue;
      NearestWord nearest{key};
      for (const std::string& known : keys_) nearest.offer(known);
      const std::string question = nearest.question();
      throw UsageError("rows have no key '" + key + "'" + (question.empty() ? ":" : question) + " -j shows all keys");
    }
  }

 private:
  std::set<std::string> keys_;
};

}  // namespace

int show_rows(const Json& question, const Target& target, const Json& filters, const std::string& heading,
              std::string_view columns, const OutputStyle& style) {
  std::vector<Record> records;
  KnownKeys known;
  int failed = 0;
  if (const auto reply = ask_processes(question, target)) {
    for_each_answer(*reply, style, failed, [&](const ProcessAnswer& each) {
      const Json& answer = each.answer;
      std::vector<Record> of_one;
      for (const Json& row : answer.at("rows")) {
        Json whole = row;
        whole["pid"] = answer.at("pid");
        whole["comm"] = answer.at("comm");
        known.add(whole);
        if (matches(whole, filters)) of_one.push_back(record_of(row, answer, heading, style));
      }
      const bool cut = answer.at("cut") == true;
      records.insert(records.end(), of_one.begin(), of_one.end());
      if (!cut) return;
      ++failed;
      print_error(answer.at("comm").get<std::string>() + " has more than " + std::to_string(answer.at("rows").size()) +
                  ": the others are left out");
    });
  }
  known.require(filters);
  if (records.empty() && target.qp && failed == 0 && !has_queue_pair(*target.qp))
    print_error(no_queue_pair(*target.qp));
  print_records(records, style, columns);
  return failed == 0 ? 0 : 1;
}

}  // namespace brdma
