// The slots of memory and torch::nn on a real torch, with a core that keeps what it is told.
#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/Type.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <set>
#include <thread>

#include "probe/torch/elf_object.h"
#include "tests/unit/nn_slots/fake_core.h"

namespace tensortap::probe {
namespace {

namespace nn = torch::nn;
using Kind = Event::Kind;

const SlotsUnderTest& slots() { return *tensortap_slots_under_test(); }

// User classes, as C++ programs have them.
struct Block : nn::Module {
  Block() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(4, 4, 3).padding(1)));
    drop = register_module("a_child_with_a_rather_long_name", nn::Dropout(0.5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return drop->forward(torch::relu(conv->forward(x))); }
  nn::Conv2d conv{nullptr};
  nn::Dropout drop{nullptr};
};

struct Net : nn::Module {
  Net() {
    conv = register_module("conv", nn::Conv2d(nn::Conv2dOptions(1, 4, 3).padding(1)));
    block = register_module("block", std::make_shared<Block>());
    head = register_module(
        "head", nn::Sequential(nn::Flatten(), nn::Linear(4 * 8 * 8, 16), nn::ReLU(), nn::Linear(16, 3)));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head->forward(block->forward(conv->forward(x))); }
  nn::Conv2d conv{nullptr};
  std::shared_ptr<Block> block;
  nn::Sequential head{nullptr};
};

const std::vector<std::pair<std::string, std::string>> kNetCalls = {
    {"conv", "torch::nn::Conv2dImpl"},
    {"block.conv", "torch::nn::Conv2dImpl"},
    {"block.a_child_with_a_rather_long_name", "torch::nn::DropoutImpl"},
    {"head.0", "torch::nn::FlattenImpl"},
    {"head.1", "torch::nn::LinearImpl"},
    {"head.2", "torch::nn::ReLUImpl"},
    {"head.3", "torch::nn::LinearImpl"},
};

struct Tied : nn::Module {
  Tied() {
    first = register_module("first", nn::Linear(4, 4));
    inner = register_module("inner", nn::Sequential(first, nn::Tanh()));
  }
  torch::Tensor forward(const torch::Tensor& x) { return inner->forward(first->forward(x)); }
  nn::Linear first{nullptr};
  nn::Sequential inner{nullptr};
};

// Not Module::name(): a constructor may have given another one.
std::string type_name(const nn::Module& module) { return c10::demangle(typeid(module).name()); }

class NnSlots : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(1);
    at::set_num_threads(1);
    ASSERT_TRUE(slots().start());
  }
  void TearDown() override { slots().stop(); }

  static std::vector<Event> enters(const std::vector<Event>& events) {
    std::vector<Event> found;
    for (const Event& event : events) {
      if (event.kind == Kind::kModuleEnter) found.push_back(event);
    }
    return found;
  }

  static std::vector<std::pair<std::string, std::string>> calls(const std::vector<Event>& events) {
    std::vector<std::pair<std::string, std::string>> found;
    for (const Event& event : enters(events)) found.emplace_back(event.name, event.type);
    return found;
  }

  // Each thread's enters and leaves nest.
  static void expect_balanced(const std::vector<Event>& events) {
    std::map<std::uint64_t, std::vector<const void*>> open;
    for (const Event& event : events) {
      auto& stack = open[event.thread];
      if (event.kind == Kind::kModuleEnter || event.kind == Kind::kPhaseEnter) stack.push_back(event.who);
      if (event.kind != Kind::kModuleLeave && event.kind != Kind::kPhaseLeave) continue;
      ASSERT_FALSE(stack.empty());
      EXPECT_EQ(stack.back(), event.who);
      stack.pop_back();
    }
    for (const auto& [thread, stack] : open) EXPECT_TRUE(stack.empty());
  }

  static std::string phases(const std::vector<Event>& events) {
    std::string text;
    for (const Event& event : events) {
      if (event.kind == Kind::kZeroGrad) text += "zero_grad ";
      if (event.kind == Kind::kPhaseEnter) text += event.name + ":" + std::to_string(event.step) + " ";
    }
    return text;
  }
};

TEST_F(NnSlots, AreInstalledInMilliseconds) {
  RecordProperty("install_ms", std::to_string(slots().last_install_ms()));
  std::printf("install: %.1f ms, %zu slots\n", slots().last_install_ms(), slots().patched());
  EXPECT_LT(slots().last_install_ms(), 2000);
  EXPECT_GT(slots().patched(), 20u);
}

TEST_F(NnSlots, GiveTheCallsOfAUsersNetOnTheStackTheirPaths) {
  Net net;
  slots().take_events();
  const torch::Tensor x = torch::rand({2, 1, 8, 8});
  for (std::uint32_t round = 0; round < 3; ++round) {
    net.forward(x);
    const auto events = slots().take_events();
    expect_balanced(events);
    EXPECT_EQ(calls(events), kNetCalls);
    for (const Event& event : enters(events)) {
      EXPECT_EQ(event.call_index, round);
      EXPECT_EQ(event.unseen_root, static_cast<nn::Module*>(&net));
      EXPECT_EQ(event.unseen_root_name, "tensortap::probe::(anonymous namespace)::Net");
    }
  }
}

TEST_F(NnSlots, GiveTheCallsOfAUsersNetOnTheHeapTheirPaths) {
  auto net = std::make_shared<Net>();
  net->forward(torch::rand({2, 1, 8, 8}));
  const auto events = slots().take_events();
  EXPECT_EQ(calls(events), kNetCalls);
  std::map<std::string, std::string> names;
  for (const auto& item : net->named_modules()) names[item.key()] = type_name(*item.value());
  for (const auto& [path, type] : calls(events)) EXPECT_EQ(names[path], type);
}

TEST_F(NnSlots, ShowThePhasesOfATrainingStep) {
  Net net;
  torch::optim::SGD optimizer(net.parameters(), 0.1);
  slots().take_events();
  optimizer.zero_grad();
  const auto loss = net.forward(torch::rand({2, 1, 8, 8})).pow(2).mean();
  loss.backward();
  optimizer.step();
  const auto events = slots().take_events();
  expect_balanced(events);
  EXPECT_EQ(phases(events), "zero_grad backward:2 Optimizer.step#SGD.step:3 ");
  EXPECT_EQ(events.front().kind, Kind::kZeroGrad);
  EXPECT_EQ(events.front().who, static_cast<torch::optim::Optimizer*>(&optimizer));
  EXPECT_EQ(events.back().who, static_cast<torch::optim::Optimizer*>(&optimizer));
}

TEST_F(NnSlots, SeeGradOfAutogradAsABackwardPass) {
  const auto x = torch::ones({3}, torch::requires_grad());
  const auto grads = torch::autograd::grad({(x * x).sum()}, {x});
  EXPECT_EQ(grads[0].sum().item<double>(), 6.0);
  EXPECT_EQ(phases(slots().take_events()), "backward:2 ");
}

TEST_F(NnSlots, NameEveryOptimizer) {
  nn::Linear layer(4, 2);
  const auto parameters = layer->parameters();
  std::vector<std::pair<std::unique_ptr<torch::optim::Optimizer>, std::string>> optimizers;
  optimizers.emplace_back(std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1)),
                          "SGD");
  optimizers.emplace_back(std::make_unique<torch::optim::Adam>(parameters), "Adam");
  optimizers.emplace_back(std::make_unique<torch::optim::AdamW>(parameters), "AdamW");
  optimizers.emplace_back(std::make_unique<torch::optim::Adagrad>(parameters), "Adagrad");
  optimizers.emplace_back(std::make_unique<torch::optim::RMSprop>(parameters), "RMSprop");
  for (auto& [optimizer, name] : optimizers) {
    layer->forward(torch::rand({3, 4})).sum().backward();
    slots().take_events();
    optimizer->step();
    EXPECT_EQ(phases(slots().take_events()), "Optimizer.step#" + name + ".step:3 ");
  }
  torch::optim::LBFGS lbfgs(parameters, torch::optim::LBFGSOptions(0.1).max_iter(1));
  lbfgs.step([&] {
    lbfgs.zero_grad();
    const auto loss = layer->forward(torch::rand({3, 4})).pow(2).sum();
    loss.backward();
    return loss;
  });
  const auto events = slots().take_events();
  expect_balanced(events);
  EXPECT_EQ(phases(events).substr(0, 53), "Optimizer.step#LBFGS.step:3 zero_grad backward:2 ");
}

TEST_F(NnSlots, GiveASharedModuleThePathThatNamedModulesGives) {
  Tied net;
  slots().take_events();
  net.forward(torch::rand({2, 4}));
  const std::vector<std::pair<std::string, std::string>> expected = {{"first", "torch::nn::LinearImpl"},
                                                                     {"first", "torch::nn::LinearImpl"},
                                                                     {"inner.1", "torch::nn::TanhImpl"}};
  const auto events = slots().take_events();
  EXPECT_EQ(calls(events), expected);
  EXPECT_EQ(enters(events)[1].call_index, 1u);
}

TEST_F(NnSlots, ReachTheCallsInsideLibtorch) {
  nn::TransformerEncoder encoder(
      nn::TransformerEncoderOptions(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16), 2));
  std::map<std::string, std::string> names;
  for (const auto& item : encoder->named_modules()) names[item.key()] = type_name(*item.value());
  slots().take_events();
  encoder->forward(torch::rand({5, 2, 8}));
  const auto events = slots().take_events();
  expect_balanced(events);
  const auto found = calls(events);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].first, "torch::nn::TransformerEncoderImpl");  // a root is named by its type
  std::set<std::string> paths;
  for (const auto& [path, type] : found) {
    paths.insert(path);
    EXPECT_EQ(path == found[0].first ? type : names[path], type) << path;
  }
  for (const char* path :
       {"layers.0", "layers.0.self_attn", "layers.0.linear1", "layers.1.norm2", "layers.1.dropout1"}) {
    EXPECT_EQ(paths.count(path), 1u) << path;
  }
  for (const Event& event : enters(events)) EXPECT_EQ(event.unseen_root, nullptr);
}

TEST_F(NnSlots, LetExceptionsThroughAndCloseTheCall) {
  Net net;
  slots().take_events();
  EXPECT_THROW(net.forward(torch::rand({2, 1, 5, 8})), c10::Error);  // head.1 gets the wrong width
  const auto events = slots().take_events();
  expect_balanced(events);
  EXPECT_EQ(calls(events).back().first, "head.1");
  EXPECT_NO_THROW(net.forward(torch::rand({2, 1, 8, 8})));
}

TEST_F(NnSlots, ShowInferenceWithoutPhases) {
  Net net;
  net.eval();
  const torch::NoGradGuard no_grad;
  slots().take_events();
  net.forward(torch::rand({2, 1, 8, 8}));
  const auto events = slots().take_events();
  EXPECT_EQ(calls(events), kNetCalls);
  EXPECT_EQ(phases(events), "");
}

TEST_F(NnSlots, FindTheLongerPathOfAModuleRegisteredAfterItsFirstCall) {
  nn::Linear layer(4, 4);
  const auto x = torch::rand({2, 4});
  layer->forward(x);
  nn::Module owner;
  layer->forward(x);
  slots().take_events();
  owner.register_module("late", layer);
  for (int i = 0; i < 3; ++i) layer->forward(x);
  const auto found = calls(slots().take_events());
  EXPECT_EQ(found.back().first, "late");
}

TEST_F(NnSlots, ForgetTheNetsThatAreGone) {
  const auto x = torch::rand({2, 4});
  for (int round = 0; round < 20; ++round) {
    const auto run = [&](auto& net) {
      slots().take_events();
      net.forward(x);
      return slots().take_events();
    };
    Tied on_stack;
    for (const Event& event : enters(run(on_stack)))
      EXPECT_EQ(event.unseen_root, static_cast<nn::Module*>(&on_stack));
    auto on_heap = std::make_unique<Tied>();
    for (const Event& event : enters(run(*on_heap)))
      EXPECT_EQ(event.unseen_root, static_cast<nn::Module*>(on_heap.get()));
    on_heap.reset();
    auto shared = std::make_shared<Tied>();
    for (const Event& event : enters(run(*shared)))
      EXPECT_EQ(event.unseen_root, static_cast<nn::Module*>(shared.get()));
    for (const Event& event : enters(run(on_stack)))
      EXPECT_EQ(event.unseen_root, static_cast<nn::Module*>(&on_stack));
  }
}

TEST_F(NnSlots, NameTheModuleThatOutlivedItsNetByItsType) {
  nn::Linear survivor{nullptr};
  {
    auto net = std::make_shared<Tied>();
    survivor = net->first;
    net->forward(torch::rand({2, 4}));
  }
  slots().take_events();
  survivor->forward(torch::rand({2, 4}));
  survivor->forward(torch::rand({2, 4}));
  nn::Tanh other;  // any construction makes old answers void
  survivor->forward(torch::rand({2, 4}));
  const auto events = enters(slots().take_events());
  EXPECT_EQ(events.back().name, "torch::nn::LinearImpl");
  EXPECT_EQ(events.back().unseen_root, nullptr);
}

// A net of which only `seen` is seen to be called.
struct Quiet : nn::Module {
  nn::Linear seen{4, 4}, unused{4, 2};
  nn::BatchNorm1d norm{4};
  nn::Sequential body{nn::Linear(4, 3), nn::Tanh()};
  torch::Tensor own, none;
  Quiet() {
    register_module("seen", seen);
    register_module("unused", unused);
    register_module("norm", norm);
    register_module("body", body);
    own = register_parameter("a_name_longer_than_a_string_holds_in_itself", torch::ones({2}));
    none = register_parameter("none", torch::Tensor(), false);
  }
};

std::map<std::string, const void*> told(const std::vector<ToldTensor>& tensors, bool buffers) {
  std::map<std::string, const void*> found;
  for (const ToldTensor& tensor : tensors) {
    if (tensor.is_buffer != buffers) continue;
    EXPECT_TRUE(found.emplace(tensor.label, tensor.impl).second) << tensor.label << " was told twice";
  }
  return found;
}
template <class Items>
std::map<std::string, const void*> impls(const Items& items) {
  std::map<std::string, const void*> found;
  for (const auto& item : items) {
    if (item.value().defined()) found[item.key()] = item.value().unsafeGetTensorImpl();
  }
  return found;
}

TEST_F(NnSlots, TellTheTensorsOfAWholeTreeOnce) {
  Quiet net;
  const auto x = torch::rand({2, 4});
  const auto owners = net.unused->weight.use_count();
  slots().take_tensors();
  net.seen->forward(x);
  const std::vector<ToldTensor> tensors = slots().take_tensors();
  EXPECT_EQ(told(tensors, false), impls(net.named_parameters()));
  EXPECT_EQ(told(tensors, true), impls(net.named_buffers()));
  std::map<std::string, int> facts;
  for (const ToldTensor& tensor : tensors) {
    if (tensor.has_facts) ++facts[tensor.label];
  }
  EXPECT_EQ(facts, (std::map<std::string, int>{{"a_name_longer_than_a_string_holds_in_itself", 1},
                                               {"unused.weight", 1},
                                               {"norm.weight", 1},
                                               {"body.0.weight", 1}}))
      << "a module that was called has told its own";
  net.seen->forward(x);
  net.unused->forward(x);
  EXPECT_TRUE(slots().take_tensors().empty());
  EXPECT_EQ(net.unused->weight.use_count(), owners) << "nothing is held";
}

TEST_F(NnSlots, TellTheTensorsOfAModuleThatCameLater) {
  Quiet net;
  const auto x = torch::rand({2, 4});
  net.seen->forward(x);
  slots().take_tensors();
  nn::Linear late(4, 4);
  net.register_module("late", late);
  late->forward(x);
  EXPECT_EQ(told(slots().take_tensors(), false),
            (std::map<std::string, const void*>{{"late.weight", late->weight.unsafeGetTensorImpl()},
                                                {"late.bias", late->bias.unsafeGetTensorImpl()}}));
}

TEST_F(NnSlots, TellNoTensorOfANetThatIsGone) {
  nn::Linear survivor{nullptr};
  {
    Quiet net;
    survivor = net.seen;
  }
  slots().take_tensors();
  survivor->forward(torch::rand({2, 4}));
  const auto parameters = told(slots().take_tensors(), false);
  EXPECT_EQ(parameters.size(), 2u);
  for (const auto& [label, impl] : parameters) {
    EXPECT_TRUE(impl == survivor->weight.unsafeGetTensorImpl() ||
                impl == survivor->bias.unsafeGetTensorImpl())
        << label;
  }
}

TEST_F(NnSlots, CostNoReferenceOfTensorsPassedByValue) {
  nn::ReLU relu;  // forward(at::Tensor)
  torch::Tensor x = torch::rand({4});
  const torch::Tensor kept = x;
  EXPECT_EQ(kept.use_count(), 2u);
  torch::Tensor y = relu->forward(x);
  EXPECT_EQ(kept.use_count(), 2u);
  y = relu->forward(std::move(x));
  EXPECT_EQ(kept.use_count(), 1u);
  EXPECT_TRUE(torch::equal(y, kept));
  nn::LSTM lstm(nn::LSTMOptions(4, 4));  // a tuple in an optional, by value
  torch::Tensor h = torch::zeros({1, 1, 4});
  torch::Tensor c = torch::zeros({1, 1, 4});
  {
    const torch::NoGradGuard no_grad;
    lstm->forward(torch::rand({2, 1, 4}), std::make_tuple(h, c));
  }
  EXPECT_EQ(h.use_count(), 1u);
  EXPECT_EQ(c.use_count(), 1u);
}

TEST_F(NnSlots, ChangeNoResult) {
  const auto train = [] {
    torch::manual_seed(7);
    Net net;
    torch::optim::Adam optimizer(net.parameters(), 0.01);
    double loss_value = 0;
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      const auto loss = net.forward(torch::rand({2, 1, 8, 8})).pow(2).mean();
      loss.backward();
      optimizer.step();
      loss_value = loss.item<double>();
    }
    return loss_value;
  };
  const double with = train();
  slots().stop();
  EXPECT_EQ(train(), with);
  ASSERT_TRUE(slots().start());
}

// torch's own account of the same thread: what its profiler would be told.
class Account : public c10::MemoryReportingInfoBase {
 public:
#if TORCH_VERSION_MAJOR >= 2
  using Total = std::size_t;
#else
  using Total = std::int64_t;
#endif
  void reportMemoryUsage(void*, std::int64_t bytes, Total, Total, c10::Device) override {
    (bytes < 0 ? freed : allocated) += static_cast<std::uint64_t>(bytes < 0 ? -bytes : bytes);
    ++(bytes < 0 ? frees : allocations);
  }
  void reportOutOfMemory(std::int64_t, Total, Total, c10::Device) override {}
  bool memoryProfilingEnabled() const override { return true; }
  std::uint64_t allocated = 0, freed = 0, allocations = 0, frees = 0;
};

TEST_F(NnSlots, AgreeWithTorchsOwnAccountOfMemory) {
  auto account = std::make_shared<Account>();
  ASSERT_EQ(slots().memory().live_bytes, 0u);
  const MemoryTotals before = slots().memory();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, account);
    const torch::NoGradGuard no_grad;
    Net net;
    net.eval();
    for (int i = 0; i < 3; ++i) net.forward(torch::rand({2, 1, 8, 8}));
  }
  const MemoryTotals after = slots().memory();
  EXPECT_GT(account->allocated, 50000u);
  EXPECT_EQ(after.bytes_allocated - before.bytes_allocated, account->allocated);
  EXPECT_EQ(after.frees - before.frees, account->frees);
  EXPECT_EQ(account->allocated - account->freed, after.live_bytes);
}

TEST_F(NnSlots, KnowTheLiveBytes) {
  const MemoryTotals before = slots().memory();
  {
    const auto a = torch::empty({1000}, torch::kFloat);
    auto b = torch::empty({10, 10}, torch::kDouble);
    EXPECT_EQ(slots().memory().live_bytes - before.live_bytes, 4000u + 800u);
    b = torch::Tensor();
    EXPECT_EQ(slots().memory().live_bytes - before.live_bytes, 4000u);
    const auto view = a.slice(0, 10);
    EXPECT_EQ(slots().memory().live_bytes - before.live_bytes, 4000u);
  }
  EXPECT_EQ(slots().memory().live_bytes, before.live_bytes);
}

TEST_F(NnSlots, KeepTheBalanceOverATrainingRun) {
  const MemoryTotals before = slots().memory();
  {
    Net net;
    torch::optim::Adam optimizer(net.parameters(), 0.01);
    for (int i = 0; i < 5; ++i) {
      optimizer.zero_grad();
      net.forward(torch::rand({2, 1, 8, 8})).pow(2).mean().backward();
      optimizer.step();
    }
    std::uint64_t parameters = 0;
    for (const auto& parameter : net.parameters()) parameters += parameter.nbytes();
    // The parameters, their gradients, and Adam's two moments.
    EXPECT_GE(slots().memory().live_bytes - before.live_bytes, 4 * parameters);
  }
  EXPECT_EQ(slots().memory().live_bytes, before.live_bytes);
  EXPECT_EQ(slots().memory().live_blocks, before.live_blocks);
}

// All symbolic relocation slots of all objects but the slots' own library.
std::map<std::uintptr_t, std::uintptr_t> all_slots() {
  std::map<std::uintptr_t, std::uintptr_t> values;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto* into = static_cast<std::map<std::uintptr_t, std::uintptr_t>*>(data);
        ElfObject object;
        if (!describe(info, &object)) return 0;
        for (const auto& [first, count] :
             {std::pair(object.rela, object.rela_count), std::pair(object.plt, object.plt_count)}) {
          for (std::size_t i = 0; i < count; ++i) {
            const std::uintptr_t address = object.base + first[i].r_offset;
            if (ELF64_R_SYM(first[i].r_info) != 0 && object.contains_writable(address)) {
              (*into)[address] = *reinterpret_cast<const std::uintptr_t*>(address);
            }
          }
        }
        return 0;
      },
      &values);
  return values;
}

TEST_F(NnSlots, AreAllAsBeforeAfterTheCapture) {
  slots().stop();
  all_slots();                                // binds what it calls itself
  const std::size_t own = slots().patched();  // this program's, of the library's table
  const auto before = all_slots();
  ASSERT_TRUE(slots().start());
  const auto during = all_slots();
  slots().stop();
  EXPECT_EQ(all_slots(), before);
  EXPECT_NE(during, before);
  EXPECT_EQ(slots().patched(), own);
  ASSERT_TRUE(slots().start());
}

TEST_F(NnSlots, SayNothingWhenNothingIsCaptured) {
  slots().set_capturing(false);
  Net net;
  net.forward(torch::rand({2, 1, 8, 8})).sum().backward();
  EXPECT_TRUE(slots().take_events().empty());
  slots().set_capturing(true);
  net.forward(torch::rand({2, 1, 8, 8}));
  EXPECT_EQ(calls(slots().take_events()), kNetCalls);
}

TEST_F(NnSlots, ReachALibraryThatIsLoadedLater) {
  void* plugin = dlopen(NN_SLOTS_PLUGIN, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr) << dlerror();
  const auto forward = reinterpret_cast<double (*)()>(dlsym(plugin, "plugin_forward"));
  slots().take_events();
  forward();
  EXPECT_TRUE(enters(slots().take_events()).empty());
  slots().repatch();
  forward();
  EXPECT_EQ(
      calls(slots().take_events()),
      (std::vector<std::pair<std::string, std::string>>{{"torch::nn::LinearImpl", "torch::nn::LinearImpl"}}));
  dlclose(plugin);
  slots().repatch();
}

TEST_F(NnSlots, AreRightOnManyThreadsThatBuildAndDropNets) {
  std::vector<std::thread> threads;
  slots().take_events();
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      const torch::NoGradGuard no_grad;
      for (int i = 0; i < 25; ++i) {
        Net net;
        auto shared = std::make_shared<Net>();
        net.eval();
        net.forward(torch::rand({1, 1, 8, 8}));
        shared->eval();
        shared->forward(torch::rand({1, 1, 8, 8}));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto events = slots().take_events();
  expect_balanced(events);
  std::map<std::string, int> paths;
  for (const auto& [path, type] : calls(events)) ++paths[path];
  EXPECT_EQ(paths.size(), kNetCalls.size());
  for (const auto& [path, type] : kNetCalls) EXPECT_EQ(paths[path], 4 * 25 * 2) << path;
}

TEST_F(NnSlots, WorkInAForkedChild) {
  Net net;
  const torch::NoGradGuard no_grad;
  net.forward(torch::rand({1, 1, 8, 8}));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    slots().take_events();
    Net other;
    other.forward(torch::rand({1, 1, 8, 8}));
    _exit(calls(slots().take_events()) == kNetCalls ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tensortap::probe
