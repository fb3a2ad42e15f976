// The controller's file, and files of keys.
#include "configuration.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "controller-session/endpoint.h"
#include "controller-session/key_file.h"

namespace brdma::controller_program {
namespace {

TEST(Configuration, NetworkAndLimits) {
  const Configuration read = parse_configuration(R"(
    [controller]
    congested_links = 5
    dwell_ms = 250
    queue_high_percent = 70
    [network]           # a lab's: passed over
    mtu = 4096
    [[switch]]
    name = "s1"
    [[switch]]
    name = "s2"
    [[link]]
    between = ["s1", "s2"]
    delay = "10ms"
    [[link]]
    between = ["s2", "s1"]
    [[prefix]]
    prefix = "10.77.2.0/24"
    switch = "s2")");
  EXPECT_EQ(read.settings.congested_links_max, 5u);
  EXPECT_EQ(read.settings.damping.dwell, 250_ms);
  EXPECT_EQ(read.settings.links.state.queue_high, 700u);
  ASSERT_EQ(read.map.links().size(), 4u);
  EXPECT_EQ(read.map.links()[0].port, "s2");
  EXPECT_EQ(read.map.links()[0].delay, 10_ms);
  EXPECT_EQ(read.map.links()[2].port, "s1.2");
  EXPECT_EQ(read.map.prefixes().size(), 1u);
}

TEST(Configuration, MistakesAreNamed) {
  for (const char* text : {"[controller]\nno_such = 1", "[controller]\npace_ms = -1", "[controller]\npace_ms = \"x\"",
                           "[controller]\nqueue_high_percent = 10", "[[switch]]\nname = \"a b\"", "[[switch]]\n",
                           "[[link]]\nbetween = [\"a\"]", "[[link]]\nbetween = [\"a\", \"b\"]\ndelay = \"10\"",
                           "[[prefix]]\nprefix = \"x\"\nswitch = \"s\"", "[", "switch = [1]"}) {
    EXPECT_THROW((void)parse_configuration(text), std::runtime_error) << text;
  }
  EXPECT_NO_THROW((void)parse_configuration(""));
}

TEST(Endpoint, Forms) {
  for (const char* good : {"10.0.0.1:4799", "[fd77::1]:4799", "unix:/run/x", "unix:@x"}) {
    EXPECT_NO_THROW((void)session::parse_endpoint(good)) << good;
  }
  for (const char* bad : {"", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:70000", "host:1", "unix:", "10.0.0.1:1x"}) {
    EXPECT_THROW((void)session::parse_endpoint(bad), std::invalid_argument) << bad;
  }
}

class KeyFile : public testing::Test {
 protected:
  void SetUp() override { path_ = "/tmp/brdma-keys-" + std::to_string(::getpid()); }
  void TearDown() override { ::unlink(path_.c_str()); }
  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }
  std::string path_;
};

TEST_F(KeyFile, IsReadAsWritten) {
  const session::Keys keys{{"s1", session::make_key()}, {"*", session::make_key()}};
  session::write_new_keys(path_, keys);
  EXPECT_EQ(session::read_keys(path_), keys);
  EXPECT_THROW(session::write_new_keys(path_, keys), std::runtime_error);  // it is there
  struct stat about {};
  ASSERT_EQ(::stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(KeyFile, IsRefusedWhenOthersMayReadItOrItIsNone) {
  const std::string line = session::key_line("s1", session::make_key());
  write("# a comment\n\n" + line + " # more\n");
  EXPECT_EQ(session::read_keys(path_).size(), 1u);
  write(line, 0640);
  EXPECT_THROW((void)session::read_keys(path_), std::runtime_error);
  for (const std::string& bad :
       {std::string{}, std::string{"s1\n"}, line.substr(0, line.size() - 2) + "\n", "a b " + line}) {
    write(bad);
    EXPECT_THROW((void)session::read_keys(path_), std::runtime_error) << bad;
  }
  EXPECT_THROW((void)session::read_keys(path_ + ".none"), std::runtime_error);
}

}  // namespace
}  // namespace brdma::controller_program
