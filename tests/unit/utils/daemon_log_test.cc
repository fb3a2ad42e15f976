// Lines for the system's log, and the vault that a service manager keeps: datagrams to another process's socket.
#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "io/system/pass_descriptors.h"
#include "process/system_log.h"
#include "supervisor/service_manager.h"

namespace brdma::daemon {
namespace {

class DaemonLog : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "brdmad-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = name + "/log";
    listen();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void listen() {
    std::filesystem::remove(path_);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  std::string next_line(std::array<io::FileDescriptor, 2>* came = nullptr) {
    std::array<io::FileDescriptor, 2> ignored;
    std::array<std::byte, 1024> bytes{};
    const ssize_t got = io::receive_with_descriptors(socket_.get(), bytes, came != nullptr ? *came : ignored);
    return got < 0 ? std::string{}
                   : std::string(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(got));
  }

  std::string folder_, path_;
  io::FileDescriptor socket_;
};

TEST_F(DaemonLog, LinesHavePriorityAndProcess) {
  spdlog::logger logger{"test", std::make_shared<SystemLog>(path_)};
  logger.info("one {}", 1);
  logger.error("two");
  logger.debug("not asked for");
  const std::string pid = std::to_string(::getpid());
  EXPECT_EQ(next_line(), "<30>brdmad[" + pid + "]: one 1");
  EXPECT_EQ(next_line(), "<27>brdmad[" + pid + "]: two");
  EXPECT_EQ(next_line(), "");
}

// journald is restarted, or stuck, or not there at all: the daemon continues.
TEST_F(DaemonLog, ItNeverWaitsAndFindsTheNextOne) {
  spdlog::logger logger{"test", std::make_shared<SystemLog>(path_)};
  for (int i = 0; i < 100'000; ++i) logger.info("nobody reads {}", i);
  listen();
  logger.info("again");
  EXPECT_TRUE(next_line().ends_with("]: again"));
  socket_.reset();
  std::filesystem::remove(path_);
  logger.info("nobody there");
  listen();
  logger.info("there");
  EXPECT_TRUE(next_line().ends_with("]: there"));
}

TEST_F(DaemonLog, AServiceManagerIsGivenTheVaultAndGivesItBack) {
  ::unsetenv("NOTIFY_SOCKET");
  store_vault(STDERR_FILENO);
  EXPECT_EQ(next_line(), "") << "nobody asked";
  ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  store_vault(STDERR_FILENO);
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_EQ(next_line(), "FDSTOREREMOVE=1\nFDNAME=vault");
  std::array<io::FileDescriptor, 2> came;
  EXPECT_EQ(next_line(&came), "FDSTORE=1\nFDNAME=vault");
  EXPECT_TRUE(came[0].valid());

  EXPECT_EQ(stored_vault(), -1);
  ::setenv("LISTEN_FDNAMES", "other:vault", 1);
  ::setenv("LISTEN_PID", "1", 1);
  EXPECT_EQ(stored_vault(), -1) << "another process's";
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  EXPECT_EQ(stored_vault(), 4);
  ::setenv("LISTEN_FDNAMES", "other", 1);
  EXPECT_EQ(stored_vault(), -1);
}

}  // namespace
}  // namespace brdma::daemon
