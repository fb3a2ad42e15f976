// words.h - the words of a command line in iproute2's manner: objects and commands may be abbreviated, options may come
// anywhere before words of another owner, and everything behind "--" belongs to the program.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace brdma {

// The caller's mistake: exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Words {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {}
  [[nodiscard]] bool empty() const { return next_ == words_.size(); }
  [[nodiscard]] const std::string& peek() const { return words_.at(next_); }
  std::string take() { return words_.at(next_++); }
  // The value of an option that was just taken.
  std::string take_value(const std::string& option) {
    if (empty()) throw UsageError(option + " needs a value");
    return take();
  }
  [[nodiscard]] std::vector<std::string> take_rest() {
    std::vector<std::string> rest{words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end()};
    next_ = words_.size();
    return rest;
  }

 private:
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

// The first of `names` that starts with `word` (their order decides what "r" means, as in ip and rdma); -1: none.
[[nodiscard]] inline int find_word(std::string_view word, std::span<const std::string_view> names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!word.empty() && names[i].starts_with(word)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace brdma
