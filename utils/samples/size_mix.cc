#include "samples/size_mix.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "samples/errors.h"

namespace brdma::samples {
namespace {

constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 40;

template <class Number>
std::optional<Number> numeral(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> names_in(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator{folder, error}) {
      if (entry.path().extension() == ".csv") names.push_back(entry.path().stem().string());
    }
    if (!names.empty()) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> contents(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ifstream file{path};
  if (!file) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>{file}, {}};
}

}  // namespace

SizeMix SizeMix::parse(std::string_view text, std::string name) {
  SizeMix mix;
  mix.name_ = std::move(name);
  std::size_t line_number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.starts_with("# sampling: step")) mix.step_ = true;
    if (line.empty() || line[0] == '#' || line == "bytes,cumulative_probability") continue;
    const char* const mistake = mix.add_row(line);
    if (mistake != nullptr) throw Misuse(mix.name_ + ", line " + std::to_string(line_number) + ": " + mistake);
  }
  if (mix.rows_.empty() || mix.rows_.back().probability < 1) {
    throw Misuse(mix.name_ + ": the last row's probability must be 1");
  }
  return mix;
}

const char* SizeMix::add_row(std::string_view line) {
  const std::size_t comma = line.find(',');
  if (comma == std::string_view::npos) return "expected bytes,cumulative_probability";
  const auto bytes = numeral<std::uint64_t>(line.substr(0, comma));
  const auto probability = numeral<double>(line.substr(comma + 1));
  if (!bytes || *bytes > kBytesMax) return "expected a number of bytes, at most 2^40, before the comma";
  if (!probability || !(*probability >= 0 && *probability <= 1)) return "expected a probability behind the comma";
  const bool first = rows_.empty();
  if (!first && (*bytes < rows_.back().bytes || *probability < rows_.back().probability))
    return "rows must not decrease";
  if (rows_.size() == kRowsMax) return "more than 100,000 rows";
  rows_.push_back({*bytes, *probability});
  return nullptr;
}

SizeMix SizeMix::open(const std::string& name, const std::vector<std::string>& folders) {
  if (const auto text = contents(name)) return parse(*text, name);
  if (name.find('/') == std::string::npos) {
    for (const std::string& folder : folders) {
      if (const auto text = contents(folder + "/" + name + ".csv")) return parse(*text, name);
    }
  }
  std::string known;
  for (const std::string& each : names_in(folders)) known += (known.empty() ? "" : ", ") + each;
  throw Misuse("sizes " + name + ": no such file" + (known.empty() ? "" : "; known names: " + known));
}

std::uint64_t SizeMix::draw(Random& random) const {
  const double at = static_cast<double>(random.next() >> 11) / 9007199254740992.0;  // in [0, 1)
  const auto row = std::partition_point(rows_.begin(), rows_.end(), [at](const Row& r) { return r.probability < at; });
  if (step_ || row == rows_.begin()) return std::max<std::uint64_t>(row->bytes, 1);
  const Row& before = *std::prev(row);
  const double part = (at - before.probability) / (row->probability - before.probability);
  const double bytes = static_cast<double>(before.bytes) + part * static_cast<double>(row->bytes - before.bytes);
  return std::max<std::uint64_t>(static_cast<std::uint64_t>(bytes), 1);
}

double SizeMix::mean() const {
  double mean = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row before = i > 0 ? rows_[i - 1] : Row{rows_[0].bytes, 0};
    const double size = step_ ? static_cast<double>(rows_[i].bytes)
                              : (static_cast<double>(before.bytes) + static_cast<double>(rows_[i].bytes)) / 2;
    mean += size * (rows_[i].probability - before.probability);
  }
  return mean;
}

}  // namespace brdma::samples
