// Runs a fuzz target's entry point over its kept corpus without libFuzzer: each file as it is, cut at every length, and
// with each single bit flipped (within a bound). The oracle is the target's own checks, which abort.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

std::vector<std::pair<std::string, Input>> corpus() {
  std::vector<std::pair<std::string, Input>> inputs;
  for (const auto& entry : std::filesystem::directory_iterator{BRDMA_CORPUS_DIR}) {
    std::ifstream in{entry.path(), std::ios::binary};
    const std::vector<char> bytes{std::istreambuf_iterator<char>{in}, {}};
    inputs.emplace_back(entry.path().filename(), Input{bytes.begin(), bytes.end()});
  }
  if (inputs.size() < 8) throw std::runtime_error{"next to no corpus in " BRDMA_CORPUS_DIR};
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

// In a heap block of just its size, so that the sanitizers detect a read beyond its end.
void run(const Input& input, std::size_t size) {
  const std::unique_ptr<std::uint8_t[]> exact{new std::uint8_t[size]};
  std::copy_n(input.begin(), size, exact.get());
  LLVMFuzzerTestOneInput(exact.get(), size);
}

// Per file and kind of change, spread over its length: the replay is to take a second or two.
constexpr std::size_t kVariantsMax = BRDMA_CORPUS_VARIANTS;
std::size_t stride(std::size_t places) { return 1 + places / (kVariantsMax + 1); }

TEST(Corpus, IsReplayedWhole) {
  for (const auto& [name, input] : corpus()) {
    SCOPED_TRACE(name);
    run(input, input.size());
  }
}

TEST(Corpus, TruncationsAndBitFlips) {
  for (const auto& [name, input] : corpus()) {
    SCOPED_TRACE(name);
    for (std::size_t size = 0; size < input.size(); size += stride(input.size())) run(input, size);
    Input bent = input;
    for (std::size_t bit = 0; bit < input.size() * 8; bit += stride(input.size() * 8)) {
      const auto mask = static_cast<std::uint8_t>(1u << (bit % 8));
      bent[bit / 8] = static_cast<std::uint8_t>(bent[bit / 8] ^ mask);
      run(bent, bent.size());
      bent[bit / 8] = input[bit / 8];
    }
  }
}

}  // namespace
