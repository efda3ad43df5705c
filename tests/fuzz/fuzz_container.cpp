// Any bytes as a trace file, and as a file of any other kind that the input side reads. A corpus of small
// files:
//   TENSORTAP_FUZZ_CORPUS=corpus format_test --gtest_filter='ContainerFuzz*'
//   fuzz_container corpus -max_total_time=60
#include "tests/fuzz/container_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensortap::format::fuzzing::check_any_file(data, size);
  return 0;
}
