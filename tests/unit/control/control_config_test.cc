// Settings: layers, origins, ranges, and messages about bad ones.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "control/config.h"
#include "control/definitions.h"

namespace brdma::control {
namespace {

std::map<std::string, std::string> variables;  // the environment of these tests

std::optional<std::string> variable(const char* name) {
  const auto found = variables.find(name);
  return found != variables.end() ? std::optional(found->second) : std::nullopt;
}

class ConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "brdma-config-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    places_ = {folder_ + "/system.toml", folder_ + "/user.toml", &variable, {}};
    variables.clear();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void system_file(const std::string& text) { std::ofstream(places_.system_file) << text; }
  void user_file(const std::string& text) { std::ofstream(places_.user_file) << text; }
  LoadedSettings load() { return load_settings(places_); }

  // The one error that loading gives.
  std::string error() {
    const LoadedSettings loaded = load();
    EXPECT_EQ(loaded.errors.size(), 1u);
    return loaded.errors.empty() ? "" : loaded.errors.front();
  }

  std::string folder_;
  SettingPlaces places_;
};

const SettingReport& report(const LoadedSettings& loaded, std::string_view key) {
  for (const SettingReport& entry : loaded.reports) {
    if (entry.key == key) return entry;
  }
  ADD_FAILURE() << "no setting " << key;
  return loaded.reports.front();
}

TEST_F(ConfigTest, WithoutFilesAndVariablesEverythingIsTheDefault) {
  const LoadedSettings loaded = load();
  EXPECT_TRUE(loaded.errors.empty());
  EXPECT_EQ(loaded.settings.recovery.window_packets, RecoveryConfig{}.window_packets);
  EXPECT_EQ(loaded.settings.recovery.mode, RecoveryMode::kBitmap);
  EXPECT_FALSE(loaded.settings.seed.has_value());
  EXPECT_EQ(loaded.reports.size(), definitions().size());
  for (const SettingReport& entry : loaded.reports) {
    EXPECT_EQ(entry.source, SettingSource::kDefault) << entry.key;
    EXPECT_EQ(entry.where, "") << entry.key;
  }
  EXPECT_EQ(report(loaded, "recovery.window").value, "4096");
  EXPECT_EQ(report(loaded, "recovery.age_max_us").value, "50");
  EXPECT_EQ(report(loaded, "recovery.mode").value, "bitmap");
}

TEST_F(ConfigTest, EachLayerOverridesTheOneBelowAndIsNamed) {
  system_file("[recovery]\nwindow = 1024\ndepth_max = 3\nack_packets = 2\n");
  user_file("# mine\n[recovery]\n\ndepth_max = 5\nack_packets = 4\n");
  variables["BRDMA_ACK_PACKETS"] = "8";
  variables["BRDMA_LO"] = "1";
  const LoadedSettings loaded = load();
  EXPECT_TRUE(loaded.errors.empty());
  EXPECT_EQ(loaded.settings.recovery.window_packets, 1024u);
  EXPECT_EQ(loaded.settings.recovery.depth_max, 5u);
  EXPECT_EQ(loaded.settings.recovery.ack_packets, 8u);
  EXPECT_TRUE(loaded.settings.loopback_device);
  EXPECT_EQ(report(loaded, "recovery.window").where, places_.system_file + ":2");
  EXPECT_EQ(report(loaded, "recovery.window").source, SettingSource::kSystemFile);
  EXPECT_EQ(report(loaded, "recovery.depth_max").where, places_.user_file + ":4");
  EXPECT_EQ(report(loaded, "recovery.depth_max").source, SettingSource::kUserFile);
  EXPECT_EQ(report(loaded, "recovery.ack_packets").where, "BRDMA_ACK_PACKETS");
  EXPECT_EQ(report(loaded, "recovery.ack_packets").source, SettingSource::kEnvironment);
}

TEST_F(ConfigTest, EveryKindOfValueIsTaken) {
  user_file(
      "[recovery]\nmode = 'gobackn'\nage_max_us = 1_000\n[device]\nloopback = true\nseed = 7\n[daemon]\npath = "
      "'/opt/brdmad'\n");
  const LoadedSettings loaded = load();
  EXPECT_TRUE(loaded.errors.empty());
  EXPECT_EQ(loaded.settings.recovery.mode, RecoveryMode::kGoBackN);
  EXPECT_EQ(loaded.settings.recovery.age_max, 1_ms);
  EXPECT_TRUE(loaded.settings.loopback_device);
  EXPECT_EQ(loaded.settings.seed, 7u);
  EXPECT_EQ(loaded.settings.daemon_path, "/opt/brdmad");
  variables["BRDMA_RECOVERY"] = "standard";
  EXPECT_EQ(load().settings.recovery.mode, RecoveryMode::kStandard);
}

TEST_F(ConfigTest, ABadValueLeavesTheLayerBelowAndSaysWhatIsAllowed) {
  system_file("[recovery]\nwindow = 2048\n");
  for (const char* bad : {"1000", "8", "2097152", "-16", "4096x", " 4096", "0x1000", "many", "99999999999999999999"}) {
    variables["BRDMA_WINDOW"] = bad;
    EXPECT_EQ(error(), std::string("BRDMA_WINDOW: recovery.window = '") + bad +
                           "' is not allowed; allowed: 16..1048576, a power of two");
    EXPECT_EQ(load().settings.recovery.window_packets, 2048u);
    EXPECT_EQ(report(load(), "recovery.window").source, SettingSource::kSystemFile);
  }
  for (const char* good : {"16", "1048576"}) {
    variables["BRDMA_WINDOW"] = good;
    EXPECT_TRUE(load().errors.empty()) << good;
  }
  variables["BRDMA_WINDOW"] = "";  // equal to unset
  EXPECT_TRUE(load().errors.empty());
}

TEST_F(ConfigTest, BadFilesAreNamedWithTheirLine) {
  user_file("[recovery]\nwindow = 1000\n");
  EXPECT_EQ(error(),
            places_.user_file + ":2: recovery.window = '1000' is not allowed; allowed: 16..1048576, a power of two");
  user_file("[recovery]\n\nmode = 'fast'\n");
  EXPECT_EQ(error(),
            places_.user_file +
                ":3: recovery.mode = 'fast' is not allowed; allowed: bitmap|standard|gobackn|selective|wan|wan_ffm");
  user_file("[recovery]\nmode = 5\n");
  EXPECT_EQ(error(),
            places_.user_file +
                ":2: recovery.mode = '5' is not allowed; allowed: bitmap|standard|gobackn|selective|wan|wan_ffm");
  user_file("[recovery]\nwindow = [1, 2]\n");
  EXPECT_NE(error().find(":2: recovery.window = '(not a value)' is not allowed"), std::string::npos);
  user_file("[recovery]\nwindw = 4096\n");
  EXPECT_EQ(error(), places_.user_file + ":2: there is no setting recovery.windw: did you mean 'recovery.window'?");
  user_file("window = 4096\n");
  EXPECT_EQ(error(), places_.user_file + ":1: there is no setting window: did you mean 'recovery.window'?");
  user_file("[recovery\nwindow = 4096\n");
  EXPECT_NE(error().find(places_.user_file + ":1: not TOML"), std::string::npos) << error();
  user_file("# Länge\n[recovery]\nlänge = 4096\n");
  EXPECT_NE(error().find(places_.user_file + ":3: not TOML"), std::string::npos) << error();
  user_file("[daemon]\npath = 'brdmad'\n");
  EXPECT_NE(error().find("an absolute path"), std::string::npos);
}

// tests design BR-15, BR-35 - a limit of zero: every gap is a loss.
TEST_F(ConfigTest, ZeroIsAValue) {
  variables["BRDMA_DEPTH_MAX"] = "0";
  variables["BRDMA_AGE_MAX_US"] = "0";
  variables["BRDMA_STALL_MAX_US"] = "0";
  const LoadedSettings loaded = load();
  EXPECT_TRUE(loaded.errors.empty());
  EXPECT_EQ(loaded.settings.recovery.depth_max, 0u);
  EXPECT_EQ(loaded.settings.recovery.age_max, 0_us);
  EXPECT_EQ(loaded.settings.recovery.stall_max, 0_us);
}

TEST_F(ConfigTest, AnUnreadableFileIsAnErrorAMissingOneIsNot) {
  places_.user_file = folder_;  // a directory
  EXPECT_NE(error().find("cannot be read"), std::string::npos);
}

TEST(Definitions, EveryAllowedEndIsAssignableAndReadsBack) {
  for (const Definition& definition : definitions()) {
    const auto* number = std::get_if<NumberSetting>(&definition.kind);
    if (number == nullptr) continue;
    for (const std::uint64_t value : {number->min, number->max}) {
      Settings settings;
      EXPECT_TRUE(assign(definition, std::to_string(value), settings)) << definition.key << " " << value;
      EXPECT_EQ(value_text(definition, settings), std::to_string(value)) << definition.key;
    }
    Settings settings;
    EXPECT_FALSE(assign(definition, std::to_string(number->max + 1), settings)) << definition.key;
    if (number->min == 0) continue;
    EXPECT_FALSE(assign(definition, std::to_string(number->min - 1), settings)) << definition.key;
  }
}

TEST(Definitions, KeysAndVariablesAreDistinct) {
  std::set<std::string_view> names;
  for (const Definition& definition : definitions()) {
    EXPECT_TRUE(names.insert(definition.key).second) << definition.key;
    EXPECT_TRUE(names.insert(definition.variable).second) << definition.variable;
    EXPECT_TRUE(definition.variable.starts_with("BRDMA_")) << definition.variable;
  }
}

// Words are divided by commas in the document.
std::string words(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos;) text.replace(at, 1, ", ");
  return text;
}

// The document has one row for each setting: | `key` | `VARIABLE` | unit | range | default | reach | meaning |
TEST(Definitions, AreAllDocumentedWithDefaultAndRange) {
  std::ifstream file(BRDMA_SETTINGS_DOCUMENT);
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(document.empty());
  for (const Definition& definition : definitions()) {
    const std::string begin = "| `" + std::string(definition.key) + "` | `" + std::string(definition.variable) + "` | ";
    const std::string value = value_text(definition, Settings{});
    const std::string end = " | " + words(allowed_text(definition)) + " | " + (value.empty() ? "empty" : value) +
                            " | " + std::string(name(definition.applies)) + " | " + std::string(definition.meaning) +
                            " |";
    const std::size_t at = document.find(begin);
    ASSERT_NE(at, std::string::npos) << "missing in docs/reference/settings.md:\n" << begin;
    const std::string row = document.substr(at, document.find('\n', at) - at);
    EXPECT_TRUE(row.ends_with(end)) << row << "\nshould end with\n" << end;
  }
}

}  // namespace
}  // namespace brdma::control
