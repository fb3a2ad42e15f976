// The metrics that Prometheus scrapes: HTTP's form, and names, which dashboards and alarms rely on. Removing or
// changing a name breaks them: change this list deliberately.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "report.h"
#include "server.h"
#include "status_port.h"

namespace brdma::controller_program {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Metrics : public testing::Test {
 protected:
  Metrics() : where_("unix:@brdma-metrics-test-" + std::to_string(::getpid())) {
    ctl::NetworkMap map;
    EXPECT_TRUE(map.add_link({"s1", "s2"}, {"s2", "s1"}, {}));
    server_.emplace(context_, session::Keys{{"s1", session::make_key()}}, map, ctl::Settings{});
    serve_metrics(context_, where_, *server_);
  }
  std::string ask(const std::string& request) {
    session::Protocol::socket socket{context_};
    socket.connect(session::parse_endpoint(where_));
    asio::write(socket, asio::buffer(request));
    std::string answer;
    bool ended = false;
    asio::async_read(socket, asio::dynamic_buffer(answer),
                     [&ended](boost::system::error_code, std::size_t) { ended = true; });
    while (!ended && context_.run_one_for(std::chrono::seconds(20)) != 0) continue;
    return answer;
  }
  static std::string body(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

  std::string where_;
  asio::io_context context_{1};
  std::optional<Server> server_;
};

TEST_F(Metrics, AreServedAsHttp) {
  const std::string answer = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: " + std::to_string(body(answer).size()) + "\r\n"));
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
}

// Each sample has a type before it, a name of the permitted letters, and a number.
TEST_F(Metrics, AreInPrometheusForm) {
  std::istringstream lines{body(ask("GET /metrics HTTP/1.1\r\n\r\n"))};
  std::string type_of;
  std::size_t samples = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      std::istringstream words{line.substr(7)};
      std::string type;
      words >> type_of >> type;
      EXPECT_TRUE(type == "counter" || type == "gauge") << line;
      EXPECT_EQ(type == "counter", type_of.ends_with("_total")) << line;
      continue;
    }
    ++samples;
    const std::string name = line.substr(0, line.find_first_of("{ "));
    EXPECT_EQ(name, type_of) << line;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"), std::string::npos) << line;
    const std::string value = line.substr(line.rfind(' ') + 1);
    EXPECT_FALSE(value.empty()) << line;
    EXPECT_EQ(value.find_first_not_of("0123456789"), std::string::npos) << line;
  }
  EXPECT_GT(samples, 30u);
}

TEST_F(Metrics, KeepTheirNames) {
  std::istringstream lines{metrics_text(*server_)};
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) names.insert(line.substr(17, line.find(' ', 17) - 17));
  }
  for (const char* name : {"active_feedback_total",
                           "changes_abandoned_total",
                           "changes_done_total",
                           "congested_links",
                           "connections_failed_total",
                           "connections_refused_total",
                           "connections_total",
                           "control_packets_limited_total",
                           "control_packets_total",
                           "greetings_refused_total",
                           "hellos_refused_total",
                           "host_hellos_total",
                           "improvements_held_total",
                           "improvements_total",
                           "installs_done_total",
                           "installs_refused_total",
                           "installs_sent_total",
                           "installs_unanswered_total",
                           "acknowledgements_stale_total",
                           "link_congested{switch=\"s1\",port=\"s2\"}",
                           "link_drops{switch=\"s1\",port=\"s2\"}",
                           "link_load{switch=\"s1\",port=\"s2\"}",
                           "link_queue_limit{switch=\"s1\",port=\"s2\"}",
                           "link_queue{switch=\"s1\",port=\"s2\"}",
                           "link_rate{switch=\"s1\",port=\"s2\"}",
                           "link_reports_total",
                           "link_speed{switch=\"s1\",port=\"s2\"}",
                           "link_usable{switch=\"s1\",port=\"s2\"}",
                           "members_gone_total",
                           "messages_total",
                           "messages_unexpected_total",
                           "passive_feedback_total",
                           "recovering",
                           "repairs_total",
                           "senders_unknown_total",
                           "switch_connected{switch=\"s1\"}",
                           "switch_hellos_total",
                           "unknown_members_total",
                           "unknown_ports_total",
                           "unknown_prefixes_total"}) {
    EXPECT_TRUE(names.contains(name)) << name << " is gone";
  }
}

}  // namespace
}  // namespace brdma::controller_program
