#include "run/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "values/picture.h"
#include "values/samples.h"

namespace brdma::perf {

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw RunError(std::string{"cannot write the results: "} + std::strerror(errno));
  }
}

void write_picture(const std::string& path, const Json& results, const std::vector<Sample>& samples) {
  std::vector<std::uint64_t> took;
  const auto from = static_cast<std::int64_t>(results.at("steady").at("from_s").get<double>() * 1e9);
  for (const Sample& sample : samples) {
    if (sample.at >= from) took.push_back(sample.took);
  }
  std::ofstream file{path};
  file << picture_of(results, std::move(took));
  file.close();
  if (!file) throw RunError("--svg: cannot write " + path + ": " + std::strerror(errno));
}

Json read_results(const std::string& path) {
  std::ifstream file{path};
  if (!file) throw RunError("--compare: cannot read " + path + ": " + std::strerror(errno));
  Json json = Json::parse(std::string{std::istreambuf_iterator<char>{file}, {}}, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw RunError("--compare: " + path + " is no result of 'brdma perf -j'");
  return json;
}

std::vector<std::string> mix_folders() {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  return {(own.parent_path() / "../share/bitmaprdma/flow-sizes").string(), BRDMA_INSTALL_FLOW_SIZES};
}

}  // namespace brdma::perf
