#include "torch_library.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch_version.h"

// ---- finding
// ---------------------------------------------------------------------------------------------------

struct FindRequest {
  char* path;
  size_t path_size;
};

static int find_callback(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  const struct FindRequest* request = data;
  if (info->dlpi_name == NULL || !tt_names_torch(info->dlpi_name)) return 0;
  if (request->path != NULL) snprintf(request->path, request->path_size, "%s", info->dlpi_name);
  return 1;
}

bool tt_find_torch(char* path, size_t path_size) {
  struct FindRequest request = {path, path_size};
  return dl_iterate_phdr(find_callback, &request) != 0;
}

// ---- describing: build-id and soname from the mapped image
// ---------------------------------------------------------

struct DescribeRequest {
  const char* path;
  struct TtTorchLibrary* out;
  char soname[64];
};

// Notes need not be loaded; one that is not inside a PT_LOAD must not be read.
static bool is_loaded(const struct dl_phdr_info* info, const ElfW(Phdr) * segment) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* load = &info->dlpi_phdr[i];
    if (load->p_type == PT_LOAD && segment->p_vaddr >= load->p_vaddr &&
        segment->p_vaddr + segment->p_memsz <= load->p_vaddr + load->p_filesz) {
      return true;
    }
  }
  return false;
}

static size_t align_up(size_t value, size_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

static void read_build_id(const unsigned char* notes, size_t size, size_t alignment,
                          struct TtTorchLibrary* out) {
  if (alignment != 8) alignment = 4;
  size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= size) {
    const ElfW(Nhdr)* note = (const ElfW(Nhdr)*)(notes + at);
    const size_t name_at = at + sizeof *note;
    const size_t text_at = align_up(name_at + note->n_namesz, alignment);
    if (text_at > size || note->n_descsz > size - text_at) return;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(notes + name_at, "GNU", 4) == 0) {
      if (note->n_descsz > 64) return;
      for (size_t i = 0; i < note->n_descsz; ++i)
        snprintf(out->build_id + 2 * i, 3, "%02x", notes[text_at + i]);
      return;
    }
    at = align_up(text_at + note->n_descsz, alignment);
  }
}

static void read_soname(const struct dl_phdr_info* info, const ElfW(Dyn) * dynamic, char* soname,
                        size_t size) {
  uintptr_t strings = 0;
  const ElfW(Dyn)* name = NULL;
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = entry->d_un.d_ptr;
    if (entry->d_tag == DT_SONAME) name = entry;
  }
  if (strings == 0 || name == NULL) return;
  if (strings < info->dlpi_addr) strings += info->dlpi_addr;  // some loaders leave the table unrelocated
  snprintf(soname, size, "%s", (const char*)strings + name->d_un.d_val);
}

static int describe_callback(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  struct DescribeRequest* request = data;
  if (info->dlpi_name == NULL || strcmp(info->dlpi_name, request->path) != 0) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_NOTE && request->out->build_id[0] == '\0' && is_loaded(info, segment)) {
      read_build_id((const unsigned char*)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz,
                    segment->p_align, request->out);
    }
    if (segment->p_type == PT_DYNAMIC) {
      read_soname(info, (const ElfW(Dyn)*)(info->dlpi_addr + segment->p_vaddr), request->soname,
                  sizeof request->soname);
    }
  }
  return 1;
}

void tt_describe_torch(const char* path, struct TtTorchLibrary* out) {
  memset(out, 0, sizeof *out);
  snprintf(out->path, sizeof out->path, "%s", path);
  struct DescribeRequest request = {.path = path, .out = out, .soname = ""};
  dl_iterate_phdr(describe_callback, &request);
  tt_version_of_torch(path, request.soname, out->version, sizeof out->version);
}
