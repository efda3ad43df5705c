// A training without an optimizer, of a net most of whose modules are not seen to be called: BatchNorm, a
// Sequential, a user's own module, an attention's projection, a branch that is not used. Prints what torch
// says of it.
#include <torch/torch.h>

#include <cstdio>
#include <sstream>

#include "tests/jobs/cpp/job.h"

namespace ttjob {
namespace {

struct ScaleImpl : torch::nn::Module {
  torch::Tensor factor, offset;
  ScaleImpl() {
    factor = register_parameter("factor", torch::full({8}, 1.5));
    offset = register_buffer("offset", torch::full({8}, 0.25));
  }
  torch::Tensor forward(const torch::Tensor& x) { return x * factor + offset; }
};
TORCH_MODULE(Scale);

struct EvidenceNet : torch::nn::Module {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 4, 3).padding(1)};
  torch::nn::BatchNorm2d norm{torch::nn::BatchNorm2dOptions(4).eps(1e-4).momentum(0.25)};
  torch::nn::Sequential body{torch::nn::Linear(16, 8), torch::nn::ReLU(),
                             torch::nn::LayerNorm(torch::nn::LayerNormOptions({8}))};
  torch::nn::MultiheadAttention attention{torch::nn::MultiheadAttentionOptions(8, 2)};
  Scale scale;
  torch::nn::Linear unused{8, 3}, frozen{8, 2};
  EvidenceNet() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("body", body);
    register_module("attention", attention);
    register_module("scale", scale);
    register_module("unused", unused);
    register_module("frozen", frozen);
    for (auto& parameter : frozen->parameters()) parameter.set_requires_grad(false);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = body->forward(torch::relu(norm->forward(conv->forward(x))).flatten(2));
    const auto causal = torch::ones({x.size(0), x.size(0)}, torch::kBool).triu(1);
    return scale->forward(std::get<0>(attention->forward(x, x, x, {}, /*need_weights=*/true, causal)));
  }
};

std::string shape_of(const torch::Tensor& tensor) {
  std::ostringstream out;
  const char* comma = "[";
  for (const std::int64_t size : tensor.sizes()) {
    out << comma << size;
    comma = ",";
  }
  return tensor.dim() == 0 ? "[]" : out.str() + "]";
}

// {name: text, …} of a list of (name, tensor).
template <class Items, class Text>
std::string json_object(const Items& items, const Text& text) {
  std::ostringstream out;
  const char* comma = "{";
  for (const auto& item : items) {
    out << comma << '"' << item.key() << "\":" << text(item.value());
    comma = ",";
  }
  return items.is_empty() ? "{}" : out.str() + "}";
}

std::string norm_of(const torch::Tensor& parameter) {
  if (!parameter.grad().defined()) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", parameter.grad().to(torch::kDouble).norm().item<double>());
  return text;
}

}  // namespace

int run_evidence(const Options& options) {
  torch::manual_seed(1);
  EvidenceNet net;
  std::string gradients;
  for (int step = 0; step < (options.steps ? options.steps : 3); ++step) {
    net.zero_grad();
    const auto output = net.forward(torch::linspace(-1, 1, 32).view({2, 1, 4, 4}) * (step + 1));
    output.pow(2).mean().backward();
    {
      const torch::NoGradGuard no_grad;
      for (auto& parameter : net.parameters()) {
        if (parameter.grad().defined()) parameter.sub_(parameter.grad(), 0.1);
      }
    }
    gradients += (step == 0 ? "" : ",") + json_object(net.named_parameters(), norm_of);
  }
  const auto told = [](const torch::Tensor& tensor) {
    return "[" + shape_of(tensor) + (tensor.requires_grad() ? ",true]" : ",false]");
  };
  std::printf("{\"parameters\":%s,\"buffers\":%s,\"gradients\":[%s]}\n",
              json_object(net.named_parameters(), told).c_str(),
              json_object(net.named_buffers(), shape_of).c_str(), gradients.c_str());
  return 0;
}

}  // namespace ttjob
