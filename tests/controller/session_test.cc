// Sessions: a member with a key is accepted; one without, or with another's name, is not. A member reconnects, to a new
// controller too, which starts from the member's present routes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller-session/member.h"
#include "report.h"
#include "server.h"

namespace brdma::controller_program {
namespace {

using namespace std::chrono_literals;
using session::Message;

const fabric::Prefix kSite1 = fabric::Prefix::v4(IpAddress::v4(10, 77, 1, 0), 24);
const fabric::Prefix kSite2 = fabric::Prefix::v4(IpAddress::v4(10, 77, 2, 0), 24);

// A switch with a table: installs the received routes and confirms.
class PaperSwitch {
 public:
  PaperSwitch(asio::io_context& context, const std::string& controller, const std::string& id, const std::string& other,
              const fabric::Prefix& site, const session::Keys& keys)
      : id_(id), other_(other), site_(site) {
    member_.emplace(
        context, controller, keys,
        session::Member::Handlers{[this] { return greeting(); }, [this](const Message& message) { received(message); },
                                  [this](bool, const std::string&) { ++changes; }});
    member_->start();
  }
  session::Member& member() { return *member_; }
  void say(const std::string& port, const ctl::LinkReport& report) {
    member_->send(session::LinkReports{{{port, report}}});
  }
  std::string via(const fabric::Prefix& prefix) {
    for (const auto& route : table_) {
      if (route.prefix == prefix) return route.ports.at(0);
    }
    return "";
  }
  int changes = 0, orders = 0;

 private:
  Message greeting() {
    session::SwitchGreeting greeting;
    greeting.hello = {
        id_,     epoch_, {{"a", other_, "a", {Bandwidth{}, 10_ms}, 0}, {"b", other_, "b", {Bandwidth{}, 20_ms}, 1}},
        {site_}, table_, static_cast<std::uint32_t>(id_.back())};
    return greeting;
  }
  void received(const Message& message) {
    const auto* routes = std::get_if<session::Routes>(&message);
    if (routes == nullptr) return;
    ++orders;
    for (const auto& route : routes->routes) {
      std::erase_if(table_, [&](const auto& each) { return each.prefix == route.prefix; });
      table_.push_back(route);
    }
    epoch_ = routes->epoch;
    member_->send(session::RoutesInstalled{epoch_, true});
  }

  std::string id_, other_;
  fabric::Prefix site_;
  std::vector<ctl::PortRoute> table_;
  std::uint64_t epoch_ = 0;
  std::optional<session::Member> member_;
};

class Sessions : public testing::Test {
 protected:
  void SetUp() override {
    where_ = "unix:@brdma-controller-test-" + std::to_string(::getpid());
    keys_ = {{"s1", session::make_key()}, {"s2", session::make_key()}, {"h1", session::make_key()}};
    begin();
  }
  void begin() {
    server_.emplace(context_, keys_, ctl::NetworkMap{}, ctl::Settings{});
    server_->listen(where_);
  }
  session::Keys only(const std::string& name) { return {*keys_.find(name)}; }
  // Runs until it is true, or it took too long.
  bool until(const std::function<bool()>& reached) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!reached() && std::chrono::steady_clock::now() < end) {
      context_.restart();
      context_.run_one_for(100ms);
    }
    return reached();
  }
  ctl::LinkReport up(bool up) { return {up, 0, 0, 0, 0, 0, 0}; }

  std::string where_;
  session::Keys keys_;
  asio::io_context context_{1};
  std::optional<Server> server_;
};

TEST_F(Sessions, SwitchesGetRoutesAndNewOnesWhenALinkIsCut) {
  PaperSwitch one{context_, where_, "s1", "s2", kSite1, only("s1")},
      two{context_, where_, "s2", "s1", kSite2, only("s2")};
  ASSERT_TRUE(until([&] { return one.via(kSite2) == "a" && two.via(kSite1) == "a"; }));
  one.say("a", up(false));
  ASSERT_TRUE(until([&] { return one.via(kSite2) == "b" && two.via(kSite1) == "b"; }));
  ASSERT_TRUE(until([&] { return server_->controller().counters().changes_done == 4; }));
  const auto state = state_json(*server_);
  EXPECT_EQ(state.at("switches").at(0).at("connected"), true);
  EXPECT_EQ(state.at("links").at(0).at("usable"), false);
  const std::string metrics = metrics_text(*server_);
  EXPECT_NE(metrics.find("\nbrdma_controller_repairs_total 4\n"), std::string::npos);
  EXPECT_NE(metrics.find("brdma_controller_link_usable{switch=\"s1\",port=\"a\"} 0\n"), std::string::npos);
}

TEST_F(Sessions, AHostGetsAnOrderToLower) {
  PaperSwitch one{context_, where_, "s1", "s2", kSite1, only("s1")},
      two{context_, where_, "s2", "s1", kSite2, only("s2")};
  std::optional<session::ControlPacket> received;
  session::Member host{context_,
                       where_,
                       only("h1"),
                       {[] {
                          return session::HostGreeting{1, {"h1", {IpAddress::v4(10, 77, 1, 1)}}};
                        },
                        [&](const Message& message) {
                          if (const auto* packet = std::get_if<session::ControlPacket>(&message)) received = *packet;
                        },
                        [](bool, const std::string&) {}}};
  host.start();
  ASSERT_TRUE(until([&] { return host.connected() && one.via(kSite2) == "a"; }));
  const IpAddress destination = IpAddress::v4(10, 77, 2, 2);
  one.say("b", up(false));  // no other path
  one.member().send(
      session::ActiveFeedback{{"a", {true, 100, 100, 100, 90, 100, 0}}, {{IpAddress::v4(10, 77, 1, 1), destination}}});
  ASSERT_TRUE(until([&] { return received.has_value(); }));
  EXPECT_EQ(received->destination, destination);
  EXPECT_EQ(received->congested_links, 1u);
}

TEST_F(Sessions, WithoutTheKeyThereIsNone) {
  session::Keys wrong{{"s1", session::make_key()}}, stranger{{"s9", session::make_key()}};
  PaperSwitch one{context_, where_, "s1", "s2", kSite1, wrong}, two{context_, where_, "s9", "s1", kSite2, stranger};
  ASSERT_TRUE(until([&] { return server_->counters().connections_failed >= 4; }));
  EXPECT_FALSE(one.member().connected() || two.member().connected());
  EXPECT_EQ(server_->counters().messages, 0u);
  EXPECT_EQ(server_->controller().counters().switch_hellos, 0u);
}

TEST_F(Sessions, AKeyIsForItsOwnNameAlone) {
  PaperSwitch thief{context_, where_, "s1", "s2", kSite1, only("s2")};
  ASSERT_TRUE(until([&] { return server_->counters().greetings_refused >= 1; }));
  EXPECT_FALSE(thief.member().connected());
  EXPECT_EQ(server_->controller().counters().switch_hellos, 0u);
}

TEST_F(Sessions, AHostMayNotSpeakAsASwitch) {
  session::Member host{context_,
                       where_,
                       only("h1"),
                       {[] {
                          return session::HostGreeting{1, {"h1", {}}};
                        },
                        [](const Message&) {}, [](bool, const std::string&) {}}};
  host.start();
  ASSERT_TRUE(until([&] { return host.connected(); }));
  host.send(session::LinkReports{});
  ASSERT_TRUE(until([&] { return server_->counters().messages_unexpected == 1; }));
  EXPECT_EQ(server_->controller().counters().link_reports, 0u);
}

TEST_F(Sessions, BytesThatAreNoHandshakeEndTheConnection) {
  session::Protocol::socket socket{context_};
  socket.connect(session::parse_endpoint(where_));
  asio::write(socket, asio::buffer(std::string("GET / HTTP/1.1\r\n\r\n")));
  ASSERT_TRUE(until([&] { return server_->counters().connections_failed == 1; }));
  EXPECT_EQ(server_->sessions(), 0u);
}

TEST_F(Sessions, ASilentPeerIsDisconnected) {
  session::Protocol::socket socket{context_};
  socket.connect(session::parse_endpoint(where_));
  ASSERT_TRUE(until([&] { return server_->sessions() == 1; }));
  ASSERT_TRUE(until([&] { return server_->counters().connections_failed == 1; }));
}

TEST_F(Sessions, ANewControllerFindsTheRoutesThatAreInstalled) {
  PaperSwitch one{context_, where_, "s1", "s2", kSite1, only("s1")},
      two{context_, where_, "s2", "s1", kSite2, only("s2")};
  ASSERT_TRUE(until([&] { return one.via(kSite2) == "a" && two.via(kSite1) == "a"; }));
  one.say("a", up(false));
  ASSERT_TRUE(until([&] { return one.via(kSite2) == "b" && two.via(kSite1) == "b"; }));
  server_.reset();
  ASSERT_TRUE(until([&] { return !one.member().connected() && !two.member().connected(); }));
  EXPECT_EQ(one.via(kSite2), "b");
  const std::uint64_t epoch = 2;  // each of them has installed routes twice
  begin();
  ASSERT_TRUE(until([&] { return one.member().connected() && two.member().connected(); }));
  ASSERT_TRUE(until([&] { return !server_->controller().recovering(); }));
  EXPECT_GE(server_->controller().epoch(), epoch);
  EXPECT_EQ(server_->controller().counters().repairs, 0u);
  EXPECT_EQ(server_->controller().state(0).installed.size(), 1u);
}

}  // namespace
}  // namespace brdma::controller_program
