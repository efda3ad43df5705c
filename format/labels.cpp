// dtype and device labels (c10::ScalarType and c10::DeviceType numbers, the same in torch 1.13 and 2.x).
#include <cstdint>
#include <string>

#include "format/line_writer.h"
#include "format/ring_lines.h"

namespace tensortap::format {
namespace {

struct Dtype {
  const char* label;
  std::uint8_t bytes;  // 0 = packed or sub-byte: elements times a size says nothing
};

// In the order of c10::ScalarType. Labels that the crate knows are its own (u8 … f64, bf16, bool).
constexpr Dtype kDtypes[] = {
    {"u8", 1},           {"i8", 1},          {"i16", 2},      {"i32", 4},     {"i64", 8},
    {"f16", 2},          {"f32", 4},         {"f64", 8},      {"c32", 4},     {"c64", 8},
    {"c128", 16},        {"bool", 1},        {"qint8", 1},    {"quint8", 1},  {"qint32", 4},
    {"bf16", 2},         {"quint4x2", 0},    {"quint2x4", 0}, {"bits1x8", 0}, {"bits2x4", 0},
    {"bits4x2", 0},      {"bits8", 1},       {"bits16", 2},   {"f8_e5m2", 1}, {"f8_e4m3fn", 1},
    {"f8_e5m2fnuz", 1},  {"f8_e4m3fnuz", 1}, {"u16", 2},      {"u32", 4},     {"u64", 8},
    {"uint1", 0},        {"uint2", 0},       {"uint3", 0},    {"uint4", 0},   {"uint5", 0},
    {"uint6", 0},        {"uint7", 0},       {"int1", 0},     {"int2", 0},    {"int3", 0},
    {"int4", 0},         {"int5", 0},        {"int6", 0},     {"int7", 0},    {"f8_e8m0fnu", 1},
    {"f4_e2m1fn_x2", 1}, {"bc32", 4},
};
constexpr const char* kDevices[] = {
    "cpu",   "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip",  "fpga", "maia", "xla",           "vulkan",
    "metal", "xpu",  "mps",    "meta",   "hpu",    "ve",    "lazy", "ipu",  "mtia", "privateuseone",
};

}  // namespace

const char* dtype_label(std::uint8_t scalar_type) {
  return scalar_type < std::size(kDtypes) ? kDtypes[scalar_type].label : "unknown";
}

std::uint64_t dtype_bytes(std::uint8_t scalar_type) {
  return scalar_type < std::size(kDtypes) ? kDtypes[scalar_type].bytes : 0;
}

void append_device_label(std::string& out, std::uint8_t device_type, std::int8_t device_index) {
  out += device_type < std::size(kDevices) ? kDevices[device_type] : "unknown";
  if (device_index >= 0 && device_type != 0) {
    out += ':';
    append_json_number(out, static_cast<std::uint64_t>(device_index));
  }
}

}  // namespace tensortap::format
