// The jobs of ttjob that do not train: inference with an own module class, two threads, and the counting
// sequence.
#include <fcntl.h>
#include <sys/mman.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/jobs/cpp/job.h"

namespace ttjob {
namespace {

constexpr int kInferSteps = 40;

struct BlockImpl : torch::nn::Module {
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({32})};
  torch::nn::Linear up{32, 64}, down{64, 32};
  BlockImpl() {
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return x + down->forward(torch::gelu(up->forward(norm->forward(x))));
  }
};
TORCH_MODULE(Block);

struct ResidualImpl : torch::nn::Module {
  Block first, second;
  torch::nn::Linear head{32, 5};
  ResidualImpl() {
    register_module("first", first);
    register_module("second", second);
    register_module("head", head);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return torch::softmax(head->forward(second->forward(first->forward(x))), -1);
  }
};
TORCH_MODULE(Residual);

int infer_steps(const Options& options) { return options.steps ? options.steps : kInferSteps; }

// One u64 per thread in a shared file mapping: what was written is there after SIGKILL, without a system
// call.
std::atomic<std::uint64_t>* map_progress(const Options& options) {
  const auto bytes = static_cast<std::size_t>(options.threads) * sizeof(std::uint64_t);
  const int file = ::open(options.progress.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<std::atomic<std::uint64_t>*>(memory);
}

}  // namespace

int run_infer(const Options& options) {
  torch::manual_seed(1);
  torch::NoGradGuard no_grad;
  Residual model;
  model->eval();
  const auto x = torch::randn({options.batch, 32});
  for (int step = 0; step < infer_steps(options); ++step) {
    const auto y = model->forward(x);
    if (step == options.kill_step) die(options);
    if (step == 0) std::printf("rows sum to %.3f\n", y.sum(-1).mean().item<float>());
  }
  return 0;
}

std::string describe_infer(const Options& options) {
  Residual model;
  std::string out = "{\"job\":\"infer\",\"steps\":" + std::to_string(infer_steps(options)) + ",\"modules\":[";
  const char* comma = "";
  for (const auto& item : model->named_modules("", /*include_self=*/false)) {
    out += std::string(comma) + "{\"path\":\"" + item.key() + "\",\"type\":\"" + item.value()->name() +
           "\",\"calls\":" + std::to_string(infer_steps(options)) + "}";
    comma = ",";
  }
  return out + "],\"root\":\"" + model->name() + "\"}";
}

int run_threads(const Options& options) {
  const auto work = [&options](bool add) {
    torch::NoGradGuard no_grad;
    for (int i = 0; i < options.rounds; ++i) {
      const auto a = torch::rand({8}), b = torch::rand({8});
      if (add) {
        torch::add(a, b);
      } else {
        torch::mul(a, b);
      }
    }
  };
  std::thread adder(work, true), multiplier(work, false);
  adder.join();
  multiplier.join();
  return 0;
}

int run_sequence(const Options& options) {
  std::vector<std::atomic<std::uint64_t>> own(static_cast<std::size_t>(options.threads));
  std::atomic<std::uint64_t>* progress = own.data();
  if (!options.progress.empty() && (progress = map_progress(options)) == nullptr) {
    std::perror(options.progress.c_str());
    return 2;
  }
  std::vector<std::thread> threads;
  for (int thread = 0; thread < options.threads; ++thread)
    threads.emplace_back([&options, thread, progress] {
      for (std::int64_t i = 0; i < options.count; ++i) {
        torch::full({1}, 1'000'000 * (thread + 1) + i, torch::kLong);
        progress[thread].store(static_cast<std::uint64_t>(i + 1), std::memory_order_release);
        if (options.pace_us) std::this_thread::sleep_for(std::chrono::microseconds(options.pace_us));
      }
    });
  for (auto& thread : threads) thread.join();
  return 0;
}

}  // namespace ttjob
