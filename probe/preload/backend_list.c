#include "backend_list.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char kBlank[] = " \t\r";

// Copies the word at *at (up to blank or line end) and steps behind it and its blanks.
static bool take_word(const char** at, const char* end, char* out, size_t size) {
  const char* stop = *at;
  while (stop < end && strchr(kBlank, *stop) == NULL) ++stop;
  const size_t length = (size_t)(stop - *at);
  if (length == 0 || length >= size) return false;
  memcpy(out, *at, length);
  out[length] = '\0';
  while (stop < end && strchr(kBlank, *stop) != NULL) ++stop;
  *at = stop;
  return true;
}

const char* tt_next_backend(const char* cursor, struct TtBackendLine* out) {
  while (*cursor != '\0') {
    const char* newline = strchr(cursor, '\n');
    const char* end = newline == NULL ? cursor + strlen(cursor) : newline;
    const char* next = newline == NULL ? end : newline + 1;
    const char* at = cursor;
    cursor = next;
    while (end > at && strchr(kBlank, end[-1]) != NULL) --end;
    if (at == end || *at == '#') continue;
    if (!take_word(&at, end, out->build_id, sizeof out->build_id)) continue;
    if (!take_word(&at, end, out->version, sizeof out->version)) continue;
    const size_t length = (size_t)(end - at);  // the rest: file names may hold blanks
    if (length == 0 || length >= sizeof out->file) continue;
    memcpy(out->file, at, length);
    out->file[length] = '\0';
    return next;
  }
  return NULL;
}

// Up to three numbers of "1.13", "2.15.0", "1.13.0a0"; returns how many.
static int parse_release(const char* text, long parts[3]) {
  int known = 0;
  while (known < 3 && *text >= '0' && *text <= '9') {
    char* end;
    parts[known++] = strtol(text, &end, 10);
    if (*end != '.') break;
    text = end + 1;
  }
  return known;
}

enum TtFit tt_backend_fit(const struct TtBackendLine* line, const char* build_id, const char* version) {
  if (build_id[0] != '\0' && strcmp(line->build_id, build_id) == 0) return kTtSameBuild;
  long ours[3], theirs[3];
  const int ours_known = parse_release(line->version, ours);
  const int theirs_known = parse_release(version, theirs);
  const int known = ours_known < theirs_known ? ours_known : theirs_known;
  if (known < 2) return kTtNoFit;
  for (int i = 0; i < known; ++i) {
    if (ours[i] != theirs[i]) return kTtNoFit;
  }
  return kTtSameVersion;
}
