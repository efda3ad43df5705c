// A library of libtorch_cpu's name. Its constructor takes FAKE_TORCH_INIT_MS milliseconds, and says when it
// is through.
#include <stdlib.h>
#include <unistd.h>

static volatile int g_initialised = 0;
int fake_torch_initialised(void) { return g_initialised; }

__attribute__((constructor)) static void initialise(void) {
  const char* wait = getenv("FAKE_TORCH_INIT_MS");
  if (wait != NULL) usleep((unsigned)atoi(wait) * 1000u);
  g_initialised = 1;
}
