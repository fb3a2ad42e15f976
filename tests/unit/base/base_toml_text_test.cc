// Input that must not reach the parser: characters outside ASCII that are in no string and no comment, and tables
// without a name.
#include <gtest/gtest.h>

#include "base/toml_text.h"

namespace brdma {
namespace {

std::size_t stray_character_line(std::string_view toml) {
  const auto stray = stray_character(toml);
  return stray ? stray->line : 0;
}

TEST(TomlText, HasItsOwnCharactersInStringsAndComments) {
  for (const char* text : {"", "# Brücke\nname = \"s1\"", "name = \"Brücke\" # Brücke", "name = 'Brücke'",
                           "name = \"\"\"\nBrücke \" ' # \\\" ü\n\"\"\"", "name = '''\nBrücke ' \\'''\nx = 1",
                           "\xEF\xBB\xBFname = 1", "name = \"a\\\"ü\"", "name = \"\"\"a\\\n  b ü\"\"\""}) {
    EXPECT_EQ(stray_character_line(text), 0u) << text;
  }
}

TEST(TomlText, ReportsThePlaceOfAStrayCharacter) {
  EXPECT_EQ(stray_character_line("name = 1\nstraße = 2"), 2u);
  EXPECT_EQ(stray_character_line("ü"), 1u);
  EXPECT_EQ(stray_character_line("# ü\n'ü' = ü"), 2u);
  EXPECT_EQ(stray_character_line("name = 1 \xEF\xBB\xBF"), 1u) << "a byte order mark elsewhere than at the start";
  EXPECT_EQ(stray_character_line("name = \"ü\nü = 1"), 2u) << "a string that does not end on its line";
  EXPECT_EQ(stray_character_line("name = \"\\ü\""), 1u) << "behind a backslash";
  EXPECT_EQ(stray_character_line("name = \"\"\"a\\\n  \n ü\"\"\""), 3u) << "behind a backslash and blanks";
  EXPECT_EQ(stray_character_line("name = \"\"\"ü\"\"\"ü"), 1u);
  EXPECT_EQ(stray_character_line("name = \"\"\"a \"\"\"\"\"ü"), 1u) << "behind a string that ends with quotes";
}

TEST(TomlText, TablesHaveNames) {
  for (const char* text :
       {"[", "[\t", "[[", "x = 1\n [ a ]", "['a']\n[[\"b\"]]", "[-]\n[_.a]\n[0]", "x = [\n [ 1 ],\n[[2]], [ ]\n]\n[a]",
        "x = {a = [\n[ ]]}", "x = '''\n[=]\n'''", "# [=]\nx = [ ]", "x = \"\"\"\n[=\"\"\""}) {
    EXPECT_EQ(stray_character_line(text), 0u) << text;
  }
  for (const char* text :
       {"x = 1\n[]", "x = 1\n[ = 2", "x = []\n[[=", "x = ']'\n [[ [a]]", "x = [[1]]\n[\x01]", "# [\n[.a]"}) {
    EXPECT_EQ(stray_character_line(text), 2u) << text;
  }
  EXPECT_EQ(stray_character("[\n]")->what, "a table without a name");
}

}  // namespace
}  // namespace brdma
