// Names that are no setting's, each with the one that was meant.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <array>

#include "control/unknown_words.h"

namespace brdma::control {
namespace {

TEST(UnknownWords, ASettingIsNamedInTheFormOfTheMistake) {
  EXPECT_EQ(no_such_setting("recovery.depth_mx"),
            "there is no setting recovery.depth_mx: did you mean 'recovery.depth_max'?");
  EXPECT_EQ(no_such_setting("depth_mx"), "there is no setting depth_mx: did you mean 'depth_max'?");
  EXPECT_EQ(no_such_setting("depth_max"), "there is no setting depth_max: did you mean 'recovery.depth_max'?");
  EXPECT_EQ(no_such_setting("colour_of_the_sky"), "there is no setting colour_of_the_sky");
}

TEST(UnknownWords, VariablesOfSettingsScriptsAndOthersAreNoMistake) {
  const std::array<const char*, 7> environment{"HOME=/",
                                               "BRDMA_DEPTH_MAX=8",
                                               "BRDMA_RECOVERY=",
                                               "BRDMA_BUILD_DIR=/tmp",
                                               "BRDMA_TEST_AS_NOBODY=1",
                                               "XBRDMA_DEPTHMAX=1",
                                               nullptr};
  EXPECT_TRUE(unknown_variables(environment.data()).empty());
  EXPECT_TRUE(unknown_variables(nullptr).empty());
}

TEST(UnknownWords, AnUnknownVariableIsNamedWithTheNearest) {
  const std::array<const char*, 4> environment{"BRDMA_DEPTHMAX=8", "BRDMA_OF_A_LATER_VERSION=1", "BRDMA_LO=1", nullptr};
  const auto found = unknown_variables(environment.data());
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], "the variable BRDMA_DEPTHMAX is no setting: did you mean 'BRDMA_DEPTH_MAX'?");
  EXPECT_EQ(found[1], "the variable BRDMA_OF_A_LATER_VERSION is no setting");
}

TEST(UnknownWords, TheProcessItselfIsAsked) {
  const std::string sentence = "the variable BRDMA_WINDOWS is no setting: did you mean 'BRDMA_WINDOW'?";
  const auto is_named = [&] {
    const auto found = unknown_variables();
    return std::find(found.begin(), found.end(), sentence) != found.end();
  };
  EXPECT_FALSE(is_named());
  ::setenv("BRDMA_WINDOWS", "1", 1);
  EXPECT_TRUE(is_named());
  ::unsetenv("BRDMA_WINDOWS");
}

}  // namespace
}  // namespace brdma::control
