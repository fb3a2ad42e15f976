// tests/lab/lab_fixture.h - labs for tests: names of their own, as this user and as one without rights, always taken
// down.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"

namespace brdma::lab_test {

enum class User { kSelf, kNobody };  // kNobody needs this process to be root; else such tests are skipped

// Runs brdma and the lab's programs as one user.
class LabTest : public testing::TestWithParam<User> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // `brdma WORDS...` as the test's user.
  [[nodiscard]] std::vector<std::string> brdma(const std::vector<std::string>& words) const;
  // `brdma lab COMMAND --name NAME WORDS...`
  [[nodiscard]] std::vector<std::string> lab(const std::string& command,
                                             const std::vector<std::string>& words = {}) const;
  [[nodiscard]] std::vector<std::string> on_host(const std::string& host,
                                                 const std::vector<std::string>& program) const;
  [[nodiscard]] std::vector<std::string> traffic(const std::string& host, const std::vector<std::string>& words) const;

  void up(const std::vector<std::string>& network);  // fails the test if the lab does not come up
  void set(const std::vector<std::string>& network);
  [[nodiscard]] nlohmann::json show() const;
  // The direction that ends at `host`.
  [[nodiscard]] nlohmann::json link_to(const std::string& host) const;

  using Values = std::map<std::string, long long>;
  [[nodiscard]] static Values values(const Outcome& outcome);
  // Numbered datagrams from h1 to h2's port; h2's counts.
  struct Stream {
    std::string address = "10.77.0.2";
    int port = 4791;
    int count = 10'000;
    int size = 200;
    int batch = 1;
    int traffic_class = 0;
    int gap_us = 0;  // 0: as fast as the receiver takes them, losing none itself
  };
  [[nodiscard]] Values send_stream(const Stream& stream);

  std::string name_;
  bool is_up_ = false;
};

[[nodiscard]] std::string user_name(const testing::TestParamInfo<User>& info);

// The network namespace of this inode ("net:[4026532178]"), in which a process is. It stays while this object does:
// else the kernel would give its number to the next one, which may be another lab's.
class NetworkNamespace {
 public:
  explicit NetworkNamespace(const std::string& link);
  ~NetworkNamespace();
  NetworkNamespace(const NetworkNamespace&) = delete;
  NetworkNamespace& operator=(const NetworkNamespace&) = delete;
  [[nodiscard]] bool found() const { return fd_ >= 0; }
  [[nodiscard]] bool is_inhabited() const;  // any process is in it

 private:
  std::string link_;
  int fd_ = -1;
};

}  // namespace brdma::lab_test
