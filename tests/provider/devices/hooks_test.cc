// The hooks in place: this program runs with libbitmaprdma.so preloaded, in a network namespace of its own, and
// accesses the library's paths through libc in every way that the hooks know.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/close_range.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int directory, const char* path, int flags);
int __openat64_2(int directory, const char* path, int flags);
int __xstat(int version, const char* path, struct stat* out);
int __lxstat(int version, const char* path, struct stat* out);
ssize_t __readlink_chk(const char* path, char* out, size_t bytes, size_t room);
char* __realpath_chk(const char* path, char* out, size_t room);
}

namespace {

constexpr char kClass[] = "/sys/class/infiniband", kDevices[] = "/sys/devices/virtual/infiniband";
constexpr char kGuid[] = "/sys/class/infiniband/brdma_lo/node_guid";
constexpr char kNode[] = "/dev/infiniband/uverbs1";  // lo is the first interface of a namespace

std::string read_all(int fd) {
  std::string text(64, '\0');
  const ssize_t got = fd < 0 ? -1 : ::read(fd, text.data(), text.size());
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  if (fd >= 0) ::close(fd);
  return text;
}

TEST(Hooks, EveryOpenFindsTheFile) {
  const std::string guid = read_all(::open(kGuid, O_RDONLY));
  ASSERT_EQ(guid.size(), 20u);
  EXPECT_EQ(read_all(::open64(kGuid, O_RDONLY)), guid);
  EXPECT_EQ(read_all(::openat(AT_FDCWD, kGuid, O_RDONLY)), guid);
  EXPECT_EQ(read_all(::openat64(AT_FDCWD, kGuid, O_RDONLY)), guid);
  EXPECT_EQ(read_all(::__open_2(kGuid, O_RDONLY)), guid);
  EXPECT_EQ(read_all(::__open64_2(kGuid, O_RDONLY)), guid);
  EXPECT_EQ(read_all(::__openat_2(AT_FDCWD, kGuid, O_RDONLY)), guid);
  EXPECT_EQ(read_all(::__openat64_2(AT_FDCWD, kGuid, O_RDONLY)), guid);
  for (std::FILE* file : {::fopen(kGuid, "r"), ::fopen64(kGuid, "r")}) {
    ASSERT_NE(file, nullptr);
    char line[64];
    EXPECT_EQ(std::fgets(line, sizeof line, file), guid);
    std::fclose(file);
  }
  const int directory = ::open(kClass, O_RDONLY | O_DIRECTORY);  // relative to an open directory, no hook is needed
  EXPECT_EQ(read_all(::openat(directory, "brdma_lo/node_guid", O_RDONLY)), guid);
  ::close(directory);
}

TEST(Hooks, EveryQuestionAboutAPathIsAnswered) {
  struct stat status {};
  struct stat64 status64 {};
  struct statx statusx {};
  EXPECT_EQ(::stat(kClass, &status), 0);
  EXPECT_EQ(::lstat(kClass, &status), 0);
  EXPECT_EQ(::stat64(kClass, &status64), 0);
  EXPECT_EQ(::lstat64(kClass, &status64), 0);
  EXPECT_EQ(::fstatat(AT_FDCWD, kClass, &status, 0), 0);
  EXPECT_EQ(::fstatat64(AT_FDCWD, kClass, &status64, 0), 0);
  EXPECT_EQ(::statx(AT_FDCWD, kClass, 0, STATX_BASIC_STATS, &statusx), 0);
  EXPECT_EQ(::__xstat(1, kClass, &status), 0);
  EXPECT_EQ(::__lxstat(1, kClass, &status), 0);
  EXPECT_EQ(::access(kGuid, R_OK), 0);
  EXPECT_EQ(::faccessat(AT_FDCWD, kGuid, R_OK, 0), 0);
  EXPECT_EQ(::euidaccess(kGuid, R_OK), 0);
  EXPECT_EQ(::eaccess(kGuid, R_OK), 0);
  char text[PATH_MAX];
  EXPECT_EQ(::readlink(kNode, text, sizeof text), 9);
  EXPECT_EQ(std::string(text, 9), "/dev/full");
  EXPECT_EQ(::readlinkat(AT_FDCWD, kNode, text, sizeof text), 9);
  EXPECT_EQ(::__readlink_chk(kNode, text, sizeof text, sizeof text), 9);
  errno = 0;
  EXPECT_TRUE(::getxattr(kGuid, "user.x", text, sizeof text) < 0 && errno != ENOENT);
  EXPECT_TRUE(::llistxattr(kGuid, text, sizeof text) >= 0 || errno != ENOENT);
  ASSERT_NE(::realpath(kGuid, text), nullptr);
  EXPECT_STREQ(text, "/sys/devices/virtual/infiniband/brdma_lo/node_guid");
  EXPECT_EQ(::access(text, R_OK), 0);
  char* canonical = ::canonicalize_file_name(kGuid);
  EXPECT_STREQ(canonical, text);
  std::free(canonical);
  EXPECT_NE(::__realpath_chk(kGuid, text, sizeof text), nullptr);
  ASSERT_EQ(::stat(kNode, &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

TEST(Hooks, DirectoriesAreListedInEveryWay) {
  DIR* directory = ::opendir(kClass);
  ASSERT_NE(directory, nullptr);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  ::closedir(directory);
  EXPECT_THAT(names, testing::ElementsAre("brdma_lo"));
  const auto release = [](auto** const& list, int count) {  // the counting call's result
    for (int i = 0; i < count; ++i) std::free(list[i]);
    std::free(list);
    return count;
  };
  dirent** list = nullptr;
  dirent64** list64 = nullptr;
  EXPECT_EQ(release(list, ::scandir(kClass, &list, nullptr, ::alphasort)), 3);
  list = nullptr;
  int count = ::scandirat(AT_FDCWD, kClass, &list, nullptr, ::alphasort);
  EXPECT_EQ(release(list, count), 3);
  count = ::scandir64(kClass, &list64, nullptr, ::alphasort64);
  EXPECT_EQ(release(list64, count), 3);
  glob_t found{};
  ASSERT_EQ(::glob("/sys/class/infiniband/*/ports/1/gids/*", 0, nullptr, &found), 0);
  EXPECT_GE(found.gl_pathc, 1u);
  EXPECT_EQ(::access(found.gl_pathv[0], R_OK), 0);
  ::globfree(&found);
  static unsigned visited;
  visited = 0;
  EXPECT_EQ(::nftw(
                kDevices, [](const char*, const struct stat*, int, FTW*) { return ++visited, 0; }, 8, FTW_PHYS),
            0);
  EXPECT_GT(visited, 20u);
  EXPECT_EQ(::ftw(
                kDevices, [](const char*, const struct stat*, int) { return 0; }, 8),
            0);
}

TEST(Hooks, OtherUsesOfOurPaths) {
  const int watch = ::inotify_init1(IN_CLOEXEC);
  EXPECT_GE(::inotify_add_watch(watch, "/dev/infiniband", IN_CREATE), 0);
  ::close(watch);
  const pid_t child = ::fork();  // chdir would move this whole program
  if (child == 0) ::_exit(::chdir(kClass) == 0 && ::access("brdma_lo/node_guid", R_OK) == 0 ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(::access("/sys/class/infiniband_mad", F_OK), -1);
  EXPECT_EQ(errno, ENOENT);
  std::FILE* file = ::freopen(kGuid, "r", std::fopen("/dev/null", "r"));
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(std::fgetc(file) == EOF, false);
  std::fclose(file);
}

// The older ones need a buffer, ignore the flag, and follow links.
TEST(Hooks, OfAFunctionWithSeveralVersionsTheNewestIsCalled) {
  char* resolved = ::realpath("/dev/../dev/null", nullptr);
  EXPECT_STREQ(resolved, "/dev/null");
  std::free(resolved);
  const auto skip = [](const char*, const auto*, int, FTW*) -> int { return FTW_SKIP_SUBTREE; };
  EXPECT_EQ(::nftw(kClass, skip, 8, FTW_PHYS | FTW_ACTIONRETVAL), 0);
  EXPECT_EQ(::nftw64(kClass, skip, 8, FTW_PHYS | FTW_ACTIONRETVAL), 0);
  char directory[] = "/tmp/brdma-hooks-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string link = std::string(directory) + "/link";
  ASSERT_EQ(::symlink("nothing", link.c_str()), 0);
  glob_t found{};
  EXPECT_EQ(::glob(link.c_str(), 0, nullptr, &found), 0);
  ::globfree(&found);
  glob64_t found64{};
  EXPECT_EQ(::glob64(link.c_str(), 0, nullptr, &found64), 0);
  ::globfree64(&found64);
  EXPECT_EQ(::unlink(link.c_str()), 0);
  EXPECT_EQ(::rmdir(directory), 0);
}

TEST(Hooks, BadPathsGetLibcsOwnAnswers) {
  const char* volatile null = nullptr;
  EXPECT_EQ(::open(null, O_RDONLY), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(::access(null, R_OK), -1);
  EXPECT_EQ(errno, EFAULT);
  struct stat status {};
  EXPECT_EQ(::stat(null, &status), -1);
  EXPECT_EQ(errno, EFAULT);
}

// --- writes to a uverbs node ---

struct Command {
  std::uint32_t command = 17;
  std::uint16_t in_words = 4, out_words = 1;
  std::uint64_t response = 0;
};

// The completion channel made through `node`; -1 with errno.
int create_channel(int node) {
  std::uint32_t fd = 0;
  Command command;
  command.response = reinterpret_cast<std::uintptr_t>(&fd);
  return ::write(node, &command, sizeof command) == sizeof command ? static_cast<int>(fd) : -1;
}

bool makes_channels(int node) {
  const int channel = create_channel(node);
  return channel >= 0 && ::close(channel) == 0;
}

class Node : public testing::Test {
 protected:
  Node() : fd_(::open(kNode, O_RDWR | O_CLOEXEC)) {}
  ~Node() override { ::close(fd_); }
  int fd_;
};

TEST_F(Node, AnswersItsOneCommandAndFailsTheRest) {
  ASSERT_GE(fd_, 0);
  EXPECT_TRUE(makes_channels(fd_));
  EXPECT_EQ(::write(fd_, "12345678", 8), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  Command other;
  other.command = 3;
  EXPECT_EQ(::write(fd_, &other, sizeof other), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

// The program knows one descriptor of a channel, and closes it: the library's goes with it, unless a copy is still
// open.
TEST_F(Node, AChannelThatIsClosedLeavesNoDescriptor) {
  const int before = open_descriptors();
  const int channel = create_channel(fd_);
  const int copy = ::fcntl(channel, F_DUPFD_CLOEXEC, 0);
  EXPECT_EQ(open_descriptors(), before + 3);
  EXPECT_EQ(::close(channel), 0);
  EXPECT_EQ(open_descriptors(), before + 2) << "the copy can be read, so somebody must be able to write";
  EXPECT_EQ(::close(copy), 0);
  EXPECT_EQ(open_descriptors(), before + 1) << "nobody saw that it was a channel's";
  std::vector<int> many(40);
  for (int& each : many) each = create_channel(fd_);
  EXPECT_EQ(open_descriptors(), before + 80) << "channels that nobody can read are looked for now and then";
  for (const int each : many) EXPECT_EQ(::close(each), 0);
  EXPECT_EQ(open_descriptors(), before);
  const int last = create_channel(fd_), other = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::dup3(other, last, O_CLOEXEC), last);
  EXPECT_EQ(open_descriptors(), before + 2);
  for (const int each : {last, other}) EXPECT_EQ(::close(each), 0);
}

TEST_F(Node, DuplicatesAreNodesToo) {
  for (const int copy : {::dup(fd_), ::dup2(fd_, 200), ::dup3(fd_, 201, O_CLOEXEC)}) {
    EXPECT_TRUE(makes_channels(copy)) << copy;
    ::close(copy);
  }
  EXPECT_TRUE(makes_channels(fd_));
  EXPECT_EQ(::dup2(fd_, fd_), fd_);
  EXPECT_TRUE(makes_channels(fd_));
}

// A file that got the number of a node: the bytes of a command are just bytes.
class StaleMark : public Node {
 protected:
  void expect_plain_file() {
    Command command;
    std::uint32_t fd = 77;
    command.response = reinterpret_cast<std::uintptr_t>(&fd);
    EXPECT_EQ(::pwrite(fd_, "x", 1, 0), 1);
    EXPECT_EQ(::write(fd_, &command, sizeof command), 16);
    EXPECT_EQ(fd, 77u);
    struct stat status {};
    ::fstat(fd_, &status);
    EXPECT_EQ(status.st_size, 16);
  }
  int make_file() {
    std::FILE* file = std::tmpfile();
    const int fd = ::dup(::fileno(file));
    std::fclose(file);
    return fd;
  }
};

TEST_F(StaleMark, AfterDup2) {
  const int file = make_file();
  ASSERT_EQ(::dup2(file, fd_), fd_);
  ::close(file);
  expect_plain_file();
}

TEST_F(StaleMark, AfterDup3) {
  const int file = make_file();
  ASSERT_EQ(::dup3(file, fd_, O_CLOEXEC), fd_);
  ::close(file);
  expect_plain_file();
}

TEST_F(StaleMark, AfterCloseRange) {
  const int file = make_file();
  ASSERT_EQ(::close_range(static_cast<unsigned>(fd_), static_cast<unsigned>(fd_), CLOSE_RANGE_CLOEXEC), 0);
  EXPECT_TRUE(makes_channels(fd_));
  ASSERT_EQ(::close_range(static_cast<unsigned>(fd_), static_cast<unsigned>(fd_), 0), 0);
  ASSERT_EQ(::fcntl(file, F_DUPFD, fd_), fd_);
  ::close(file);
  expect_plain_file();
}

TEST_F(StaleMark, AfterACloseThatNobodySaw) {
  const int file = make_file();
  std::fclose(::fdopen(fd_, "r"));
  ASSERT_EQ(::fcntl(file, F_DUPFD, fd_), fd_);
  ::close(file);
  expect_plain_file();
}

// posix_spawn and Python close everything in a child that shares our memory.
TEST_F(Node, ChildOfVforkLeavesItsMark) {
  const pid_t child = ::vfork();
  if (child == 0) {
    ::close(fd_);
    ::closefrom(fd_);
    ::_exit(0);
  }
  ASSERT_GT(child, 0);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(makes_channels(fd_));
}

TEST_F(Node, ChildOfForkKeepsItsOwnBooks) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool inherited = makes_channels(fd_);
    ::close(fd_);
    const int fresh = ::open("/dev/full", O_RDWR);  // same number, same device, not a node of ours
    ::_exit(inherited && fresh == fd_ && !makes_channels(fresh) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(makes_channels(fd_));
}

void handler(int) {}
void other_handler(int) {}

// The kernel's own, whichever handler is in front of it.
auto kernels_handler(int signal) {
  struct {
    void (*handler)(int);
    unsigned long rest[3];
  } action{};
  EXPECT_EQ(::syscall(SYS_rt_sigaction, signal, nullptr, &action, 8), 0);
  return action.handler;
}

// No device is open: all of it is the system's.
TEST(Inertness, HandlersOfSignalsReachTheKernel) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGUSR1}) {
    struct sigaction action {
    }, found{};
    action.sa_handler = handler;
    ASSERT_EQ(::sigaction(signal, &action, &found), 0);
    EXPECT_EQ(found.sa_handler, SIG_DFL);
    EXPECT_EQ(kernels_handler(signal), handler);
    EXPECT_EQ(::signal(signal, other_handler), handler);
    EXPECT_EQ(kernels_handler(signal), other_handler);
    EXPECT_EQ(::sysv_signal(signal, handler), other_handler);
    EXPECT_EQ(::ssignal(signal, SIG_DFL), handler);
    EXPECT_EQ(kernels_handler(signal), SIG_DFL);
  }
  EXPECT_EQ(::signal(0, handler), SIG_ERR);
}

TEST(Inertness, NothingHappensBeforeAPathIsOurs) {
  // /bin/true with the library preloaded: its opens, sockets and processes, counted by the kernel.
  const std::string strace = "/usr/bin/strace";
  if (::access(strace.c_str(), X_OK) != 0) GTEST_SKIP() << "no strace";
  std::FILE* run = ::popen("strace -f -e trace=socket,clone,clone3,fork,vfork,mkdir,connect /bin/true 2>&1", "r");
  std::string text;
  char line[256];
  while (std::fgets(line, sizeof line, run) != nullptr) text += line;
  ::pclose(run);
  EXPECT_THAT(text, testing::HasSubstr("exited with 0"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("socket(")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("clone")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("mkdir(")));
}

}  // namespace
