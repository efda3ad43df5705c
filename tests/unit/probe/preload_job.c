// A job whose steps are its arguments, in order; each prints one line.
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LINKED_TO_TORCH
int fake_torch_initialised(void);
#endif

static int count_entries(const char* folder) {
  int count = 0;
  DIR* entries = opendir(folder);
  while (readdir(entries) != NULL) ++count;
  closedir(entries);
  return count - 2;
}

static int count_sockets(void) {
  int count = 0;
  for (int fd = 0; fd < 256; ++fd) {
    char link[64], target[64] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof target - 1) > 0 && strncmp(target, "socket:", 7) == 0) ++count;
  }
  return count;
}

static void wait_for_file(const char* path) {
  for (int i = 0; i < 2000 && access(path, F_OK) != 0; ++i) usleep(5000);
  puts(access(path, F_OK) == 0 ? "there" : "missing");
}

static void say_at_exit(void) {
  FILE* file = fopen(getenv("FAKE_BACKEND_REPORT"), "ae");
  if (file == NULL) return;
  fprintf(file, "%d job's own handler\n", (int)getpid());
  fclose(file);
}

static void cpu_microseconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%ld\n", (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L + usage.ru_utime.tv_usec +
                      usage.ru_stime.tv_usec);
}

// Children that fork off at any moment of the watcher's work, and use the loader themselves.
static void fork_often(int times) {
  int bad = 0;
  for (int i = 0; i < times; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(dlopen("libm.so.6", RTLD_NOW) == NULL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    bad += status != 0;
  }
  printf("%d bad children\n", bad);
}

// As trace-attach does it from outside.
static void attach(const char* settings) {
  int (*function)(const char*) = NULL;
  *(void**)&function = dlsym(RTLD_DEFAULT, "tensortap_attach");
  if (function == NULL) {
    puts("no tensortap_attach");
  } else {
    printf("attach %d\n", function(settings));
  }
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
#ifdef LINKED_TO_TORCH
  printf("torch %d\n", fake_torch_initialised());
#endif
  for (int i = 1; i < argc; ++i) {
    const char* step = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(step, "dlopen") == 0) {
      void* handle = dlopen(value, RTLD_NOW | RTLD_GLOBAL);
      puts(handle != NULL ? "opened" : dlerror());
      ++i;
    } else if (strcmp(step, "dlopen-self") == 0) {
      puts(dlopen(NULL, RTLD_NOW) != NULL ? "opened" : dlerror());
    } else if (strcmp(step, "threads") == 0) {
      printf("%d threads\n", count_entries("/proc/self/task"));
    } else if (strcmp(step, "sockets") == 0) {
      printf("%d sockets\n", count_sockets());
    } else if (strcmp(step, "sleep-ms") == 0) {
      usleep((unsigned)atoi(value) * 1000u), ++i;
    } else if (strcmp(step, "wait-file") == 0) {
      wait_for_file(value), ++i;
    } else if (strcmp(step, "exists") == 0) {
      puts(access(value, F_OK) == 0 ? "there" : "missing"), ++i;
    } else if (strcmp(step, "fork") == 0) {  // the rest is the child's; the parent takes over its status
      const pid_t child = fork();
      int status = 0;
      if (child != 0) {
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
    } else if (strcmp(step, "fork-often") == 0) {
      fork_often(atoi(value)), ++i;
    } else if (strcmp(step, "attach") == 0) {
      attach(value), ++i;
    } else if (strcmp(step, "cpu") == 0) {
      cpu_microseconds();
    } else if (strcmp(step, "at-exit") == 0) {
      atexit(say_at_exit);
    } else if (strcmp(step, "exit") == 0) {
      exit(atoi(value));
    } else {
      fprintf(stderr, "unknown step %s\n", step);
      return 98;
    }
  }
  return 0;
}
