// A C program that loads torch's library at run time, waits for the probe, and speaks to it: sdk_host
// LIBTORCH_CPU
#include <stdio.h>
#include <unistd.h>

#include "probe/sdk/tensortap.h"

int main(int argc, char** argv) {
  const double values[] = {0.5, -1.5, 2.5};
  const int64_t shape[] = {3};
  struct TensortapStats own = {0};
  if (argc != 2 || dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) == NULL) {
    fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: sdk_host LIBTORCH_CPU");
    return 2;
  }
  for (int i = 0; i < 1000 && !tensortap_is_capturing(); ++i) usleep(10000);
  if (!tensortap_is_capturing()) return 3;
  own.size = sizeof own;
  own.dtype = TENSORTAP_F16;
  own.shape = shape;
  own.ndim = 1;
  own.rms = 2;
  own.abs_max = 3;
  own.mean = -1;
  const uint64_t range = tensortap_range_begin("main");
  if (!tensortap_step_begin_numbered(41)) return 4;
  if (tensortap_stats("host", values, TENSORTAP_F64, shape, 1) != 1) return 5;
  if (tensortap_stats_values("device", &own) != 1) return 6;
  if (tensortap_gradient("net", "w", TENSORTAP_GRADIENT_PRESENT, 0.25) != 1) return 7;
  if (tensortap_gradient("net", "b", TENSORTAP_GRADIENT_PRESENT, 0.0) != 1) return 8;
  if (tensortap_tag("language", "C") != 1) return 9;
  tensortap_step_end();
  tensortap_range_end(range);
  return 0;
}
