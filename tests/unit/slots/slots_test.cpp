// The relocation-slot patcher, on small libraries of its own: no torch.
#include "probe/torch/slots.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "probe/torch/elf_object.h"
#include "tests/unit/slots/target.h"

namespace tensortap::probe {
namespace {

constexpr const char* kScale = "_ZN8SlotBase5scaleEi";

int replacement(int value) { return slot_target(value) + 1000; }  // our own call reaches the original
int scale_replacement(SlotBase*, int value) { return value * 2 + 1000; }

struct Library {
  explicit Library(const char* file)
      : handle(dlopen((std::string(SLOTS_LIBRARY_DIR "/") + file).c_str(), RTLD_LAZY)) {
    EXPECT_NE(handle, nullptr) << dlerror();
  }
  ~Library() { close(); }
  void close() {
    if (handle != nullptr) dlclose(handle);
    handle = nullptr;
  }
  int call(const char* name, int value) const {
    return reinterpret_cast<SlotCall>(dlsym(handle, name))(value);
  }
  void* handle;
};

void collect_exports(const char* name, void* address, void* context) {
  auto* found = static_cast<std::vector<std::pair<std::string, void*>>*>(context);
  found->emplace_back(name, address);
}

// The bytes of every writable segment (as the headers say: RELRO included) of a library.
std::vector<unsigned char> data_bytes(const char* file) {
  struct Context {
    const char* file;
    std::vector<unsigned char> bytes;
  } context{file, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto* into = static_cast<Context*>(data);
        if (std::strstr(info->dlpi_name, into->file) == nullptr) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& header = info->dlpi_phdr[i];
          if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
          const auto* begin = reinterpret_cast<const unsigned char*>(info->dlpi_addr + header.p_vaddr);
          into->bytes.insert(into->bytes.end(), begin, begin + header.p_memsz);
        }
        return 1;
      },
      &context);
  return context.bytes;
}

class Slots : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::pair<std::string, void*>> exports;
    ASSERT_TRUE(for_each_export(target.handle == nullptr ? nullptr : dlsym(target.handle, "slot_target"),
                                &collect_exports, &exports));
    void* scale = nullptr;
    for (const auto& [name, address] : exports) {
      if (name == kScale) scale = address;
    }
    ASSERT_NE(scale, nullptr);
    patcher.add("slot_target", dlsym(target.handle, "slot_target"), reinterpret_cast<void*>(&replacement));
    patcher.add(kScale, scale, reinterpret_cast<void*>(&scale_replacement));
  }
  void TearDown() override { patcher.restore(); }

  Library target{"libslots_target.so"};
  SlotPatcher patcher;
};

TEST_F(Slots, ReachCallsByPltByDataAndByVtable) {
  for (const char* file : {"libslots_caller_lazy.so", "libslots_caller_now.so"}) {
    SCOPED_TRACE(file);
    Library caller(file);
    ASSERT_TRUE(patcher.install());
    EXPECT_EQ(caller.call("call_by_plt", 1), 1002);
    EXPECT_EQ(caller.call("call_by_data", 1), 1002);
    EXPECT_EQ(caller.call("call_by_vtable", 1), 1002);
    EXPECT_EQ(caller.call("call_other", 1), 3);
    ASSERT_TRUE(patcher.restore());
    EXPECT_EQ(caller.call("call_by_plt", 1), 2);
    EXPECT_EQ(caller.call("call_by_data", 1), 2);
    EXPECT_EQ(caller.call("call_by_vtable", 1), 2);
  }
}

TEST_F(Slots, ReachALibrarysOwnCallsBeforeAndAfterTheyAreBound) {
  ASSERT_TRUE(patcher.install());
  EXPECT_EQ(target.call("slot_target_inside", 1), 1002);
  ASSERT_TRUE(patcher.restore());
  EXPECT_EQ(target.call("slot_target_inside", 1), 2);
  ASSERT_TRUE(patcher.install());
  EXPECT_EQ(target.call("slot_target_inside", 1), 1002);
}

TEST_F(Slots, AreByteForByteAsBeforeAfterRestore) {
  for (const char* file : {"libslots_caller_lazy.so", "libslots_caller_now.so"}) {
    SCOPED_TRACE(file);
    Library caller(file);
    const auto before = data_bytes(file);
    ASSERT_FALSE(before.empty());
    ASSERT_TRUE(patcher.install());
    EXPECT_NE(data_bytes(file), before);
    ASSERT_TRUE(patcher.restore());
    EXPECT_EQ(data_bytes(file), before);
  }
}

TEST_F(Slots, StayReadOnlyInRelroPages) {
  Library caller("libslots_caller_now.so");
  ASSERT_TRUE(patcher.install());
  // A store into a protected page kills: the vtable of the caller is in one.
  EXPECT_EXIT(
      {
        dl_iterate_phdr(
            [](dl_phdr_info* info, std::size_t, void*) {
              ElfObject object;
              if (std::strstr(info->dlpi_name, "caller_now") != nullptr && describe(info, &object)) {
                *reinterpret_cast<volatile char*>(object.relro_begin) = 1;
              }
              return 0;
            },
            nullptr);
        std::exit(0);
      },
      [](int status) { return status != 0; }, "");
}

TEST_F(Slots, OfALibraryLoadedLaterAreReachedAfterRepatch) {
  Library first("libslots_caller_now.so");
  ASSERT_TRUE(patcher.install());
  const std::size_t before = patcher.slots();
  Library caller("libslots_caller_lazy.so");
  EXPECT_EQ(caller.call("call_by_data", 1), 2);
  ASSERT_TRUE(patcher.repatch());
  EXPECT_EQ(caller.call("call_by_plt", 1), 1002);
  EXPECT_EQ(caller.call("call_by_data", 1), 1002);
  EXPECT_GT(patcher.slots(), before);
}

TEST_F(Slots, OfAnUnloadedLibraryAreForgotten) {
  ASSERT_TRUE(patcher.install() || patcher.slots() == 0);
  for (int round = 0; round < 3; ++round) {  // the loader likes to give the same addresses out again
    Library caller("libslots_caller_now.so");
    ASSERT_TRUE(patcher.install());
    ASSERT_TRUE(patcher.repatch());
    EXPECT_EQ(caller.call("call_by_plt", 1), 1002);
    EXPECT_EQ(caller.call("call_by_vtable", 1), 1002);
  }
  ASSERT_TRUE(patcher.repatch());
  ASSERT_TRUE(patcher.restore());  // the slots' pages are gone
}

TEST_F(Slots, BoundToAnotherDefinitionAreLeftAlone) {
  Library caller("libslots_caller_now.so");
  SlotPatcher other;
  other.add("slot_target", reinterpret_cast<void*>(&scale_replacement),
            reinterpret_cast<void*>(&replacement));
  EXPECT_FALSE(other.install());
  EXPECT_EQ(caller.call("call_by_plt", 1), 2);
}

TEST_F(Slots, RewrittenBySomebodyElseAreNotRestored) {
  Library caller("libslots_caller_now.so");
  ASSERT_TRUE(patcher.install());
  SlotPatcher later;
  later.add("slot_target", reinterpret_cast<void*>(&replacement), dlsym(target.handle, "slot_target_other"));
  ASSERT_TRUE(later.install());
  ASSERT_TRUE(patcher.restore());
  EXPECT_EQ(caller.call("call_by_plt", 1), 3);
  ASSERT_TRUE(later.restore());
}

TEST_F(Slots, MayBeCalledThroughWhileTheyAreRewritten) {
  Library caller("libslots_caller_lazy.so");
  std::atomic<bool> stop{false};
  std::atomic<long> wrong{0};
  std::vector<std::thread> threads;
  for (const char* name : {"call_by_plt", "call_by_data", "call_by_vtable"}) {
    threads.emplace_back([&, name] {
      while (!stop) {
        const int result = caller.call(name, 1);
        if (result != 2 && result != 1002) ++wrong;
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(patcher.install());
    ASSERT_TRUE(patcher.restore());
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Slots, OfAForkedChildCanBeRewrittenThere) {
  Library caller("libslots_caller_now.so");
  std::atomic<bool> stop{false};
  std::thread patching([&] {  // the child must not inherit the loader's lock from it
    while (!stop) {
      patcher.install();
      patcher.restore();
    }
  });
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(patcher.install() && caller.call("call_by_plt", 1) == 1002 && patcher.restore() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  stop = true;
  patching.join();
}

}  // namespace
}  // namespace tensortap::probe
