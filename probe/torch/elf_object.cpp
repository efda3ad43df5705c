#include "probe/torch/elf_object.h"

#include <elf.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

namespace tensortap::probe {
namespace {

// Not destroyed: a fork may come at any time.
std::mutex& walk_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// The loader has made these pointers absolute, except in objects whose dynamic section it can't write.
std::uintptr_t absolute(std::uintptr_t base, std::uintptr_t pointer) {
  return pointer < base ? base + pointer : pointer;
}

void read_dynamic(ElfObject* object) {
  std::size_t rela_bytes = 0;
  std::size_t plt_bytes = 0;
  bool plt_is_rela = true;
  for (const ElfW(Dyn)* entry = object->dynamic; entry->d_tag != DT_NULL; ++entry) {
    const std::uintptr_t pointer = absolute(object->base, entry->d_un.d_ptr);
    switch (entry->d_tag) {
      case DT_SYMTAB:
        object->symbols = reinterpret_cast<const ElfW(Sym)*>(pointer);
        break;
      case DT_STRTAB:
        object->strings = reinterpret_cast<const char*>(pointer);
        break;
      case DT_GNU_HASH:
        object->gnu_hash = reinterpret_cast<const std::uint32_t*>(pointer);
        break;
      case DT_HASH:
        object->sysv_hash = reinterpret_cast<const std::uint32_t*>(pointer);
        break;
      case DT_RELA:
        object->rela = reinterpret_cast<const ElfW(Rela)*>(pointer);
        break;
      case DT_RELASZ:
        rela_bytes = entry->d_un.d_val;
        break;
      case DT_RELACOUNT:
        object->relative_count = entry->d_un.d_val;
        break;
      case DT_JMPREL:
        object->plt = reinterpret_cast<const ElfW(Rela)*>(pointer);
        break;
      case DT_PLTRELSZ:
        plt_bytes = entry->d_un.d_val;
        break;
      case DT_PLTREL:
        plt_is_rela = entry->d_un.d_val == DT_RELA;
        break;
      default:
        break;
    }
  }
  object->rela_count = object->rela == nullptr ? 0 : rela_bytes / sizeof(ElfW(Rela));
  object->plt_count = object->plt == nullptr || !plt_is_rela ? 0 : plt_bytes / sizeof(ElfW(Rela));
}

}  // namespace

LoaderWalk::LoaderWalk() noexcept {
  static const int handlers = pthread_atfork([] { walk_mutex().lock(); }, [] { walk_mutex().unlock(); },
                                             [] { walk_mutex().unlock(); });
  static_cast<void>(handlers);
  walk_mutex().lock();
}

LoaderWalk::~LoaderWalk() { walk_mutex().unlock(); }

std::uintptr_t page_size() noexcept {
  static const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return size;
}

bool describe(const dl_phdr_info* info, ElfObject* object) noexcept {
  object->base = info->dlpi_addr;
  object->name = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  object->headers = info->dlpi_phdr;
  object->header_count = info->dlpi_phnum;
  for (std::size_t i = 0; i < object->header_count; ++i) {
    const auto& header = object->headers[i];
    const std::uintptr_t begin = object->base + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) object->dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (header.p_type == PT_GNU_RELRO) {  // rounded as the loader does it
      object->relro_begin = begin & ~(page_size() - 1);
      object->relro_end = (begin + header.p_memsz) & ~(page_size() - 1);
    }
  }
  if (object->dynamic == nullptr) return false;
  read_dynamic(object);
  return object->symbols != nullptr && object->strings != nullptr &&
         object->contains(reinterpret_cast<std::uintptr_t>(object->symbols)) &&
         object->contains(reinterpret_cast<std::uintptr_t>(object->strings));
}

namespace {

// The dynamic symbol table has no length of its own; a hash table over it tells.
std::size_t symbol_count(const ElfObject& object) {
  if (object.sysv_hash != nullptr) return object.sysv_hash[1];
  if (object.gnu_hash == nullptr) return 0;
  const std::uint32_t buckets = object.gnu_hash[0];
  const std::uint32_t first = object.gnu_hash[1];
  const std::uint32_t bloom_words = object.gnu_hash[2];
  const auto* bucket = reinterpret_cast<const std::uint32_t*>(
      reinterpret_cast<const ElfW(Addr)*>(object.gnu_hash + 4) + bloom_words);
  const std::uint32_t* chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) last = std::max(last, bucket[i]);
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;  // the last chain's end
  return last + 1;
}

struct ExportVisit {
  std::uintptr_t inside;
  void (*visit)(const char*, void*, void*);
  void* context;
  bool found;
};

int visit_exports(dl_phdr_info* info, std::size_t, void* data) {
  auto* job = static_cast<ExportVisit*>(data);
  ElfObject object;
  if (!describe(info, &object) || !object.contains(job->inside)) return 0;
  job->found = true;
  const std::size_t count = symbol_count(object);
  for (std::size_t i = 1; i < count; ++i) {
    const auto& symbol = object.symbols[i];
    if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
    job->visit(object.strings + symbol.st_name, reinterpret_cast<void*>(object.base + symbol.st_value),
               job->context);
  }
  return 1;
}

}  // namespace

bool for_each_export(const void* inside, void (*visit)(const char* name, void* address, void* context),
                     void* context) noexcept {
  ExportVisit job{reinterpret_cast<std::uintptr_t>(inside), visit, context, false};
  const LoaderWalk walk;
  dl_iterate_phdr(&visit_exports, &job);
  return job.found;
}

}  // namespace tensortap::probe
