#include "results/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "samples/errors.h"

namespace brdma::simulator {

using samples::RunError;

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw RunError("cannot make the folder " + path + ": " + error.message());
}

void write_file(const std::string& path, const std::string& text) {
  const std::string beside = path + "." + std::to_string(getpid()) + ".part";
  std::ofstream file{beside, std::ios::binary};
  file << text;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(beside, path, error);
  if (file && !error) return;
  const std::string reason = error ? error.message() : std::strerror(errno);
  std::filesystem::remove(beside, error);
  throw RunError("cannot write " + path + ": " + reason);
}

std::optional<Json> read_json(const std::string& path) {
  std::ifstream file{path};
  if (!file) return std::nullopt;
  Json json = Json::parse(std::string{std::istreambuf_iterator<char>{file}, {}}, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  return std::make_optional(std::move(json));
}

void write_run(const std::string& folder, const Scenario& scenario, const RunResult& result, const Json& summary) {
  make_folder(folder);
  write_file(folder + "/flows.tsv", rows_of(scenario, result));
  write_file(folder + "/flows.svg", picture_of(scenario, summary, result));
  write_file(folder + "/summary.json", summary.dump(2) + "\n");
}

}  // namespace brdma::simulator
