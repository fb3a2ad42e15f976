#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "io/system/pass_descriptors.h"

namespace brdma::io {
namespace {

class PassDescriptors : public testing::Test {
 protected:
  PassDescriptors() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    here.reset(pair[0]);
    there.reset(pair[1]);
  }
  static std::ptrdiff_t open_descriptors() {
    return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
  }
  // A pipe's writing end arrives where its reading end receives its bytes.
  static void expect_same(int reading, int writing) {
    ASSERT_EQ(::write(writing, "x", 1), 1);
    char c = 0;
    EXPECT_EQ(::read(reading, &c, 1), 1);
  }
  FileDescriptor here, there;
  const std::array<std::byte, 3> text{std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<std::byte, 8> received{};
};

TEST_F(PassDescriptors, ComeInOrderWithTheirBytesAndCloseOnExec) {
  int first[2], second[2];
  ASSERT_EQ(::pipe(first), 0);
  ASSERT_EQ(::pipe(second), 0);
  const FileDescriptor ends[] = {FileDescriptor{first[0]}, FileDescriptor{first[1]}, FileDescriptor{second[0]},
                                 FileDescriptor{second[1]}};
  ASSERT_EQ(send_with_descriptors(here.get(), text, std::array{first[1], second[1]}), 3);
  std::array<FileDescriptor, 3> out;
  ASSERT_EQ(receive_with_descriptors(there.get(), received, out), 3);
  EXPECT_EQ(std::memcmp(received.data(), text.data(), text.size()), 0);
  expect_same(first[0], out[0].get());
  expect_same(second[0], out[1].get());
  EXPECT_EQ(::fcntl(out[0].get(), F_GETFD), FD_CLOEXEC);
  EXPECT_FALSE(out[2].valid());
}

TEST_F(PassDescriptors, ThoseWithoutAPlaceAreClosed) {
  const auto before = open_descriptors();
  ASSERT_EQ(send_with_descriptors(here.get(), text, std::array{here.get(), here.get(), here.get()}), 3);
  {
    std::array<FileDescriptor, 1> out;
    ASSERT_EQ(receive_with_descriptors(there.get(), received, out), 3);
    EXPECT_TRUE(out[0].valid());
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(PassDescriptors, BytesAloneAndNothingAtAll) {
  std::array<FileDescriptor, 1> out;
  EXPECT_EQ(receive_with_descriptors(there.get(), received, out, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(send_with_descriptors(here.get(), text, {}), 3);
  EXPECT_EQ(receive_with_descriptors(there.get(), received, out), 3);
  EXPECT_FALSE(out[0].valid());
  there.reset();
  EXPECT_EQ(send_with_descriptors(here.get(), text, {}), -1) << "and no signal";
  EXPECT_EQ(errno, EPIPE);
}

}  // namespace
}  // namespace brdma::io
