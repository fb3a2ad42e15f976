// Input: the world's set-up, then operations (fuzz/engine_world.h): actions of the application and the peer, and the
// passing of time. The world checks itself after each.
#include "fuzz/engine_world.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr unsigned kStepsMax = 300;
  brdma::fuzz::InputReader input{data, size};
  brdma::fuzz::EngineWorld world{input};
  for (unsigned i = 0; i < kStepsMax && !input.empty(); ++i) world.step();
  world.finish();
  return 0;
}
