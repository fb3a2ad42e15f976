// The text of /etc/ld.so.preload: our line comes and goes to the byte, whatever others have written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "enable/preload_list.h"

namespace brdma::enable {
namespace {

constexpr const char* kOurs = "/usr/lib/libbitmaprdma.so";

TEST(PreloadList, ALineComesAndGoesToTheByte) {
  for (const std::string text : {"", "\n", "/a.so", "/a.so\n", "/a.so /b.so:/c.so\n\n", "# a comment", "/a.so # x\n"}) {
    const std::string with = with_library(text, kOurs);
    EXPECT_TRUE(has_own_line(with)) << text;
    EXPECT_TRUE(with.starts_with(text)) << text;
    EXPECT_EQ(with_library(with, kOurs), with) << text;
    EXPECT_EQ(without_library(with), text);
  }
}

TEST(PreloadList, AFileThatWasMadeForItGoesWithIt) {
  const std::string with = with_library(std::nullopt, kOurs);
  EXPECT_EQ(with, "/usr/lib/libbitmaprdma.so # by 'brdma enable', which made this file\n");
  EXPECT_EQ(without_library(with), std::nullopt);
  // Not once somebody else has added to it.
  EXPECT_EQ(without_library(with + "/b.so\n"), "/b.so\n");
}

TEST(PreloadList, AnotherLibraryReplacesOurLineAlone) {
  const std::string first = "/a.so\n" + with_library(std::nullopt, "/old/libbitmaprdma.so") + "/b.so\n";
  EXPECT_EQ(with_library(first, kOurs),
            "/a.so\n/usr/lib/libbitmaprdma.so # by 'brdma enable', which made this file\n/b.so\n");
}

TEST(PreloadList, LinesOfOthersStayInTheirOrder) {
  const std::string with = "/new.so\n" + with_library("/a.so\n", kOurs) + "/b.so";
  EXPECT_EQ(without_library(with), "/new.so\n/a.so\n/b.so");
  // The file had no newline at its end, and then somebody added lines.
  EXPECT_EQ(without_library(with_library("/a.so", kOurs) + "\n/b.so\n"), "/a.so\n/b.so\n");
}

TEST(PreloadList, NamesAreDividedAsTheLoaderDividesThem) {
  const std::vector<Listed> found = libraries_in(with_library("/a.so:/b.so\t/c.so # /d.so\n#/e.so\n", kOurs));
  std::vector<std::string> names, own;
  for (const Listed& one : found) (one.own ? own : names).push_back(one.library);
  EXPECT_THAT(names, testing::ElementsAre("/a.so", "/b.so", "/c.so"));
  EXPECT_THAT(own, testing::ElementsAre(kOurs));
}

}  // namespace
}  // namespace brdma::enable
