// The training jobs of ttjob: an MLP on spirals, a CNN on drawn digits through libtorch's DataLoader.
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "tests/jobs/cpp/data.h"
#include "tests/jobs/cpp/job.h"

namespace ttjob {
namespace {

constexpr int kMlpSteps = 60;
constexpr int kCnnSteps = 30;

struct MlpImpl : torch::nn::Module {
  torch::nn::Linear input{2, 64}, hidden{64, 64}, output{64, 3};
  MlpImpl() {
    register_module("input", input);
    register_module("hidden", hidden);
    register_module("output", output);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(input->forward(x));
    x = torch::relu(hidden->forward(x));
    return output->forward(x);
  }
};
TORCH_MODULE(Mlp);

struct CnnImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 8, 3).padding(1)};
  torch::nn::BatchNorm2d norm1{8};
  torch::nn::Conv2d conv2{torch::nn::Conv2dOptions(8, 16, 3).padding(1)};
  torch::nn::BatchNorm2d norm2{16};
  torch::nn::Linear head{16 * 4 * 4, 10};
  CnnImpl() {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    register_module("head", head);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm1->forward(conv1->forward(x))), 2);
    x = torch::max_pool2d(torch::relu(norm2->forward(conv2->forward(x))), 2);
    return head->forward(x.flatten(1));
  }
};
TORCH_MODULE(Cnn);

class Glyphs : public torch::data::datasets::Dataset<Glyphs> {
 public:
  explicit Glyphs(std::size_t size) : size_(size) {}
  torch::data::Example<> get(std::size_t index) override {
    auto picture = torch::empty({1, kGlyphSide, kGlyphSide});
    draw_glyph(index, picture.data_ptr<float>());
    return {picture, torch::full({}, static_cast<std::int64_t>(index % 10), torch::kLong)};
  }
  torch::optional<std::size_t> size() const override { return size_; }

 private:
  std::size_t size_;
};

// Watches the loss: a training that does not learn is a failed test, not a trace to trust.
class LossWatch {
 public:
  void add(int step, float loss) {
    losses_.push_back(loss);
    if (step % 10 == 0) std::printf("step %d loss %.4f\n", step, loss);
  }
  int exit_code() const {
    if (losses_.size() < 20) return 0;  // too short to learn anything
    const float first = mean(0), last = mean(losses_.size() - 5);
    std::printf("loss fell from %.4f to %.4f\n", first, last);
    return last < 0.7f * first ? 0 : 1;
  }

 private:
  float mean(std::size_t from) const {
    float sum = 0;
    for (std::size_t i = from; i < from + 5; ++i) sum += losses_[i];
    return sum / 5;
  }
  std::vector<float> losses_;
};

template <class Model>
void train_step(Model& model, torch::optim::Optimizer& optimizer, const torch::Tensor& x,
                const torch::Tensor& y, int step, const Options& options, LossWatch& watch) {
  optimizer.zero_grad();
  auto loss = torch::nn::functional::cross_entropy(model->forward(x), y);
  if (step == options.kill_step) die(options);
  loss.backward();
  optimizer.step();
  watch.add(step, loss.template item<float>());
}

template <class Model>
std::string describe(const char* job, Model model, int steps) {
  std::ostringstream out;
  out << "{\"job\":\"" << job << "\",\"steps\":" << steps << ",\"modules\":[";
  const char* comma = "";
  for (const auto& item : model->named_modules("", /*include_self=*/false)) {
    out << comma << "{\"path\":\"" << item.key() << "\",\"type\":\"" << item.value()->name()
        << "\",\"calls\":" << steps << "}";
    comma = ",";
  }
  out << "],\"root\":\"" << model->name() << "\"}";
  return out.str();
}

// Sleeps until the file is there: a job that can be found in the middle of its work.
void hold(const std::string& path) {
  std::puts("held");
  std::fflush(stdout);
  while (::access(path.c_str(), F_OK) != 0) ::usleep(2000);
}

// Every bit of what was learned.
void print_parameters(const torch::nn::Module& model) {
  double sum = 0;
  for (const auto& parameter : model.parameters()) sum += parameter.to(torch::kDouble).sum().item<double>();
  std::printf("parameters %a\n", sum);
}

int mlp_steps(const Options& options) { return options.steps ? options.steps : kMlpSteps; }
int cnn_steps(const Options& options) { return options.steps ? options.steps : kCnnSteps; }

}  // namespace

void die(const Options& options) {
  torch::full({1}, kMarker);
  std::fflush(stdout);
  if (options.how == "kill") std::raise(SIGKILL);
  if (options.how == "abort") std::abort();
  if (options.how == "segv") std::raise(SIGSEGV);
  std::exit(3);
}

int run_mlp(const Options& options) {
  torch::manual_seed(1);
  Mlp model;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.3).momentum(0.9));
  LossWatch watch;
  for (int step = 0; step < mlp_steps(options); ++step) {
    if (step == 10 && !options.hold.empty()) hold(options.hold);
    auto x = torch::empty({options.batch, 2});
    auto y = torch::empty({options.batch}, torch::kLong);
    for (int i = 0; i < options.batch; ++i) {
      const auto index = static_cast<std::uint64_t>(step * options.batch + i);
      const auto point = spiral_point(index);
      x.data_ptr<float>()[2 * i] = point[0];
      x.data_ptr<float>()[2 * i + 1] = point[1];
      y.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(index % 3);
    }
    train_step(model, optimizer, x, y, step, options, watch);
  }
  if (!options.hold.empty()) print_parameters(*model);
  return watch.exit_code();
}

int run_paced(const Options& options) {
  torch::manual_seed(1);
  Mlp model;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05));
  long steps = 0;
  for (; ::access(options.until.c_str(), F_OK) != 0; ++steps) {
    optimizer.zero_grad();
    const auto x = torch::linspace(-1, 1, 32).view({16, 2});
    torch::nn::functional::cross_entropy(model->forward(x), x.sum(1).gt(0).to(torch::kLong)).backward();
    optimizer.step();
    ::usleep(3000);
  }
  std::printf("steps %ld\n", steps);
  return 0;
}

int run_cnn(const Options& options) {
  torch::manual_seed(1);
  Cnn model;
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.01));
  const auto size = static_cast<std::size_t>(cnn_steps(options) * options.batch);
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      Glyphs(size).map(torch::data::transforms::Stack<>()), static_cast<std::size_t>(options.batch));
  LossWatch watch;
  int step = 0;
  for (auto& batch : *loader) train_step(model, optimizer, batch.data, batch.target, step++, options, watch);
  return watch.exit_code();
}

std::string describe_mlp(const Options& options) { return describe("mlp", Mlp(), mlp_steps(options)); }
std::string describe_cnn(const Options& options) { return describe("cnn", Cnn(), cnn_steps(options)); }

}  // namespace ttjob
