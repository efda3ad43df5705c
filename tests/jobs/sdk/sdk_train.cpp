// A libtorch program that says everything to its trace that tensortap.hpp can say. Prints 1 for what was
// taken.
#include <torch/torch.h>

#include <cstdio>
#include <thread>

#include "probe/sdk/tensortap.hpp"

int main() {
  torch::manual_seed(1);
  torch::set_num_threads(1);
  auto model = torch::nn::Linear(4, 2);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  std::printf("capturing %d\n", tensortap::is_capturing());
  std::printf("tag %d\n", tensortap::tag("language", "C++"));
  for (int step = 0; step < 3; ++step) {
    tensortap::Step own;
    const auto x = torch::ones({8, 4}) * (step + 1);
    tensortap::Range load("load");
    const auto y = torch::zeros({8, 2});
    load.end();
    optimizer.zero_grad();
    torch::Tensor out;
    {
      tensortap::MeasuredRegion region("forward pass");
      out = model->forward(x);
    }
    const auto loss = torch::mse_loss(out, y);
    std::printf("unset %d\n", tensortap::gradient("model", "weight", model->weight.grad()));
    loss.backward();
    std::printf("label %d\n", tensortap::label(out, "out"));
    std::printf("stats %d\n", tensortap::stats(x, "x"));
    std::printf("strided %d\n", tensortap::stats(x.slice(1, 0, 4, 2), "strided"));
    std::printf("undefined %d\n", tensortap::stats(torch::Tensor(), "undefined"));
    std::printf("scalar %d\n", tensortap::scalar(loss.item<double>(), "loss"));
    std::printf("gradient %d\n", tensortap::gradient("model", "bias", model->bias.grad()));
    optimizer.step();
  }
  tensortap::Range handed("handed over");
  std::thread([range = std::move(handed)]() mutable { range.end(); }).join();
  torch::ones({1});
  return 0;
}
