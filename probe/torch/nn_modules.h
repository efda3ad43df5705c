// The torch::nn classes whose `forward` libtorch exports: `nm -DC libtorch_cpu.so | grep "Impl::forward("` of
// each supported version. A class that a version doesn't export any more does no harm: no such symbol, no
// wrapper. BatchNorm, InstanceNorm and the containers are not here: their forward is in headers, compiled
// into the job.
//
//   #define X(name) use(&torch::nn::name##Impl::forward);
//   TENSORTAP_NN_MODULES(X)
#pragma once

#include <torch/version.h>

// clang-format off
#define TENSORTAP_NN_MODULES_ALL(X) \
  X(AdaptiveAvgPool1d) X(AdaptiveAvgPool2d) X(AdaptiveAvgPool3d) X(AdaptiveLogSoftmaxWithLoss) \
  X(AdaptiveMaxPool1d) X(AdaptiveMaxPool2d) X(AdaptiveMaxPool3d) X(AlphaDropout) X(AvgPool1d) \
  X(AvgPool2d) X(AvgPool3d) X(BCELoss) X(BCEWithLogitsLoss) X(Bilinear) X(CELU) X(CTCLoss) \
  X(ConstantPad1d) X(ConstantPad2d) X(ConstantPad3d) X(Conv1d) X(Conv2d) X(Conv3d) X(ConvTranspose1d) \
  X(ConvTranspose2d) X(ConvTranspose3d) X(CosineEmbeddingLoss) X(CosineSimilarity) X(CrossEntropyLoss) \
  X(CrossMapLRN2d) X(Dropout) X(Dropout2d) X(Dropout3d) X(ELU) X(Embedding) X(EmbeddingBag) \
  X(FeatureAlphaDropout) X(Flatten) X(Fold) X(FractionalMaxPool2d) X(FractionalMaxPool3d) X(Functional) \
  X(GELU) X(GLU) X(GRU) X(GRUCell) X(GroupNorm) X(Hardshrink) X(Hardtanh) X(HingeEmbeddingLoss) \
  X(HuberLoss) X(Identity) X(KLDivLoss) X(L1Loss) X(LPPool1d) X(LPPool2d) X(LSTM) X(LSTMCell) \
  X(LayerNorm) X(LeakyReLU) X(Linear) X(LocalResponseNorm) X(LogSigmoid) X(LogSoftmax) X(MSELoss) \
  X(MarginRankingLoss) X(MaxPool1d) X(MaxPool2d) X(MaxPool3d) X(MaxUnpool1d) X(MaxUnpool2d) \
  X(MaxUnpool3d) X(Mish) X(MultiLabelMarginLoss) X(MultiLabelSoftMarginLoss) X(MultiMarginLoss) \
  X(MultiheadAttention) X(NLLLoss) X(PReLU) X(PairwiseDistance) X(PixelShuffle) X(PixelUnshuffle) \
  X(PoissonNLLLoss) X(RNN) X(RNNCell) X(RReLU) X(ReLU) X(ReLU6) X(ReflectionPad1d) X(ReflectionPad2d) \
  X(ReflectionPad3d) X(ReplicationPad1d) X(ReplicationPad2d) X(ReplicationPad3d) X(SELU) X(SiLU) \
  X(Sigmoid) X(SmoothL1Loss) X(SoftMarginLoss) X(Softmax) X(Softmax2d) X(Softmin) X(Softplus) \
  X(Softshrink) X(Softsign) X(Tanh) X(Tanhshrink) X(Threshold) X(Transformer) X(TransformerDecoder) \
  X(TransformerDecoderLayer) X(TransformerEncoder) X(TransformerEncoderLayer) X(TripletMarginLoss) \
  X(TripletMarginWithDistanceLoss) X(Unflatten) X(Unfold) X(Upsample) X(ZeroPad2d)

#if TORCH_VERSION_MAJOR >= 2
#define TENSORTAP_NN_MODULES(X) TENSORTAP_NN_MODULES_ALL(X) X(LPPool3d) X(ZeroPad1d) X(ZeroPad3d)
#else
#define TENSORTAP_NN_MODULES(X) TENSORTAP_NN_MODULES_ALL(X)
#endif
// clang-format on
