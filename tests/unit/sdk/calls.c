// Calls every function of tensortap.h once and prints what each returned: C11 without extensions.
#include <assert.h>
#include <stdio.h>

#include "tensortap.h"

static_assert(sizeof(struct TensortapSdk) == 136, "the table only grows at its end");

int main(void) {
  const float values[] = {3, -4};
  const int64_t shape[] = {2};
  struct TensortapStats stats = {0};
  struct TensortapIdentity identity = {0};
  stats.size = sizeof stats;
  identity.size = sizeof identity;
  printf("capturing %d\n", tensortap_is_capturing());
  const uint64_t range = tensortap_range_begin("range");
  printf("range %d\n", range != 0);
  tensortap_range_end(range);
  tensortap_range_end(0);
  const uint64_t region = tensortap_measured_begin("region");
  printf("region %d\n", region != 0);
  tensortap_measured_end(region);
  tensortap_steps_by_job();
  printf("step %d\n", tensortap_step_begin());
  tensortap_step_end();
  printf("numbered %d\n", tensortap_step_begin_numbered(7));
  tensortap_step_end();
  printf("label %d\n", tensortap_label(values, "x", TENSORTAP_ACTIVATION));
  printf("stats_tensor %d\n", tensortap_stats_tensor(values, "x"));
  printf("stats %d\n", tensortap_stats("x", values, TENSORTAP_F32, shape, 1));
  printf("scalar %d\n", tensortap_scalar("loss", 0.5));
  printf("stats_values %d\n", tensortap_stats_values("x", &stats));
  printf("gradient %d\n", tensortap_gradient("model", "w", TENSORTAP_GRADIENT_PRESENT, 5));
  printf("gradient_tensor %d\n", tensortap_gradient_tensor("model", "w", NULL));
  printf("gradient_data %d\n", tensortap_gradient_data("model", "w", values, TENSORTAP_F32, 2));
  printf("tag %d\n", tensortap_tag("key", "value"));
  printf("identity %d\n", tensortap_identity(&identity));
  // Nothing that a caller can get wrong by a null pointer is followed.
  printf("null %d\n", (int)tensortap_range_begin(NULL) + tensortap_tag(NULL, NULL) +
                          tensortap_identity(NULL) + tensortap_stats(NULL, NULL, TENSORTAP_F32, NULL, 0) +
                          tensortap_label(NULL, NULL, TENSORTAP_OTHER) +
                          tensortap_gradient(NULL, NULL, TENSORTAP_GRADIENT_ZERO, 0));
  return 0;
}
