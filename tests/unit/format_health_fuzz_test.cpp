// The checks of fuzz_trace_health on random bytes: a short run of them with every build.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "tests/fuzz/fuzz_trace_health.cpp"

namespace {

TEST(TraceHealthFuzz, RandomStreamsAreJudgedTheSameHoweverOftenHealthIsAsked) {
  std::mt19937 random(10);
  for (int round = 0; round < 150; ++round) {
    std::vector<std::uint8_t> bytes(random() % 600);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());  // aborts when a check fails
  }
}

}  // namespace
