// The binary records that job threads write into their rings (layout: ring_layout.h).
//
// Every record begins with a RecordHeader and is a multiple of 8 bytes long. A line is a function of a
// record's bytes and the string table alone (ring_lines.h), so the drain in the job and the daemon after the
// job's death write the same lines. Texts are StrRefs into the string table; beyond its cap a text is written
// inline behind the record's fixed part, in the order of the StrRef fields: u16 length, bytes; the tail
// padded to 8.
//
// Values of operators (inputs, then outputs) follow the inline texts, each a multiple of 8 bytes: a
// ValueHeader and
//   kTensor      u64 tensor id, u64 storage id (0 = none), i64 dims[a-field ndim]
//   kInt i64 · kDouble f64 · kBool nothing (count = 0/1) · kNone nothing · kOther nothing
//   kString      `count` bytes, padded
//   kIntList     i64[count] · kDoubleList f64[count] · kBoolList u8[count], padded
//   kTensorList  `count` kTensor values; u64 total first (> count when the list was cut)
//
// The records of evidence (kTensor, kTensorStats, kGradient) have behind their inline texts, aligned to 8:
// i64 dims[ndim] where there is a shape, then `ext_members` pairs of values, a kString that names a member of
// the line's `ext` and its value (a scalar, a text or a list of scalars; no tensors). Then, of a kTensor
// whose header has kTensorModuleFacts, the facts of the module that holds it (module_nodes.h).
#pragma once

#include <cstdint>
#include <cstring>

namespace tensortap::format {

using StrRef = std::uint32_t;                      // byte offset / 8 in the string table
inline constexpr StrRef kStrNone = 0xFFFFFFFFu;    // no text
inline constexpr StrRef kStrInline = 0xFFFFFFFEu;  // behind the record

enum class RecordType : std::uint16_t {
  kPad = 1,  // fills the end of a segment
  kLine,     // payload: u32 length, u32 zero, the line's text (meta, root, window, terminal)
  kSpanStart,
  kSpanEnd,
  kSpan,  // a start and an end in one: a span that had no child
  kOp,
  kMemory,
  kDeviceMemory,
  kTensor,
  kTensorStats,
  kGradient,
};

struct RecordHeader {
  std::uint32_t bytes;  // of the whole record; multiple of 8
  RecordType type;
  std::uint16_t flags;
  std::uint64_t time_ns;  // when it was written, since the session's time 0; never falls within a ring
};
static_assert(sizeof(RecordHeader) == 16);

// Reads the header of the record at `at`, of which `available` bytes lie before the segment's end or the
// ring's head. A pad may be 8 bytes short (the last 8 of a segment): its time is then 0. False: these bytes
// are no record.
inline bool read_record_header(const unsigned char* at, std::uint64_t available, RecordHeader& header) {
  header = RecordHeader{};
  if (available < 8) return false;
  std::memcpy(&header, at, 8);
  if (header.bytes % 8 != 0 || header.bytes == 0 || header.bytes > available) return false;
  if (header.type == RecordType::kPad) return true;
  if (header.bytes < sizeof header) return false;
  std::memcpy(&header, at, sizeof header);
  return true;
}

// Span number in a ring: its id is `s<ring>.<number>`. Ring 0 number 2 is the window.
struct SpanRef {
  std::uint32_t ring = 0;
  std::uint32_t reserved = 0;
  std::uint64_t number = 2;
};
inline constexpr std::uint64_t kRootSpan = 1;
inline constexpr std::uint64_t kWindowSpan = 2;

enum SpanFlags : std::uint16_t {
  kSpanHasSeq = 1,            // seq and forward_thread are set
  kSpanHasCall = 2,           // call_index is set
  kSpanInferred = 4,          // borders inferred from children (a user's C++ module class)
  kSpanCut = 8,               // closed by the end of the window, not by its own end
  kSpanHeld = 16,             // own end was earlier: descendants outlived it; own_end_ns is set
  kSpanThreadEnd = 32,        // closed because its thread ended
  kSpanIsStep = 64,           // an iteration; call_index is its number
  kSpanAsync = 128,           // may end on another thread
  kSpanMeasuredRegion = 256,  // a region that the job asks to have figures of (SDK)
  kSpanFailed = 1024,         // of an end: the module call raised
  kSpanOutput = 2048,         // of an end: a node tree (module_nodes.h) of what the module returned follows
  kSpanOutputCut = 4096,      // of an end: it had no room
};
// SpanStartRecord::modes of a module call: what was set when it was entered.
enum CallModes : std::uint8_t {
  kModeTrainingKnown = 1,
  kModeTraining = 2,     // the module's own flag
  kModeThreadKnown = 4,  // of a root call: the three below
  kModeGrad = 8,
  kModeInference = 16,
  kModeAutocast = 32,
};
// SpanStartRecord::tails: what follows the inline texts, in this order (module_nodes.h).
enum SpanTails : std::uint8_t {
  kTailFacts = 1,  // of the module object, with its first call in a capture
  kTailArgs = 2,   // of the call
  kArgsCut = 4,    // no tail: the call had more arguments than fit
};
enum class SpanKindCode : std::uint8_t { kFunction, kOp, kModule };
enum class StepCode : std::uint8_t { kNone, kForward, kBackward, kOptimizer };

struct SpanStartRecord {
  RecordHeader header;
  SpanRef parent;
  std::uint64_t number;  // in the ring that it stands in
  std::uint64_t start_ns;
  std::int64_t seq;  // autograd sequence number
  // Of an autograd node: serial number of the thread that made it, 0 when it is not known. Of a module call:
  // the number of the module object, from 1.
  std::uint64_t forward_thread;
  std::uint32_t thread;
  std::uint32_t call_index;
  StrRef name;
  StrRef detail;  // operator overload, or module type
  SpanKindCode span_kind;
  StepCode step;
  std::uint8_t scope;  // at::RecordScope, or kScopeNone
  std::uint8_t modes;  // CallModes
  std::uint8_t tails;  // SpanTails
  std::uint8_t reserved[3];
};
inline constexpr std::uint8_t kScopeNone = 0xFF;

struct SpanEndRecord {
  RecordHeader header;
  std::uint64_t number;
  std::uint64_t duration_ns;
  std::uint64_t own_end_ns;  // with kSpanHeld
};

// kSpan: a SpanStartRecord whose header.type is kSpan, followed by its duration, before any inline text.
struct SpanRecord {
  SpanStartRecord start;
  std::uint64_t duration_ns;
};

enum OpFlags : std::uint16_t {
  kOpInputsCut = 1,
  kOpFailed = 2,  // ended by an exception: no outputs
  kOpHasSeq = 4,
};

struct OpRecord {
  RecordHeader header;
  SpanRef span;  // the span it is charged to
  std::uint64_t start_ns;
  std::uint64_t duration_ns;
  std::int64_t seq;
  std::uint32_t thread;
  StrRef name;
  StrRef overload;
  std::uint16_t inputs;  // number of values
  std::uint16_t outputs;
  std::uint8_t scope;
  std::uint8_t reserved[7];
};

struct MemoryRecord {
  RecordHeader header;
  SpanRef span;
  std::uint64_t storage;  // unique per lifetime
  std::uint64_t size_bytes;
  std::uint32_t thread;
  StrRef op_name;
  std::uint8_t is_free;
  std::uint8_t device_type;  // c10::DeviceType
  std::int8_t device_index;
  std::uint8_t reserved[5];
};

inline constexpr std::uint64_t kNotObserved = ~std::uint64_t{0};
struct DeviceMemoryRecord {
  RecordHeader header;
  std::uint64_t used, free, reserved, capacity;  // bytes, or kNotObserved
  std::uint8_t device_type;
  std::int8_t device_index;
  std::uint8_t pad[6];
};

enum class CategoryCode : std::uint8_t { kParameter, kActivation, kGradient, kOptimizer, kOther };

// TensorRecord::header.flags.
inline constexpr std::uint16_t kTensorModuleFacts = 1;

// A tensor that somebody named, or that is no operator's output: a parameter, a labelled tensor.
struct TensorRecord {
  RecordHeader header;
  SpanRef span;  // the span it is charged to
  std::uint64_t tensor;
  std::uint64_t storage;  // 0 = not known
  std::uint32_t thread;
  StrRef label;        // or kStrNone
  std::uint8_t dtype;  // c10::ScalarType
  std::uint8_t device_type;
  std::int8_t device_index;
  std::uint8_t ndim;
  std::uint8_t flags;  // TensorFlags: kTensorRequiresGrad, kTensorNoSizes
  CategoryCode category;
  std::uint16_t ext_members;
};

// Reductions over all elements of a tensor. One that is not finite is written as 0 (trace/10, §2.8).
struct TensorStatsRecord {
  RecordHeader header;
  SpanRef span;
  std::uint64_t tensor;      // 0 = not known
  std::uint64_t non_finite;  // elements that are NaN or infinite
  double rms;
  double abs_max;
  double mean;
  std::uint32_t thread;
  StrRef label;  // not blank
  std::uint8_t dtype;
  std::uint8_t device_type;
  std::int8_t device_index;
  std::uint8_t ndim;
  std::uint16_t ext_members;
  std::uint16_t reserved;
};

enum class GradientCode : std::uint8_t { kPresent, kMissing, kZero, kNonFinite };

// A parameter's gradient, as it was at one moment. Its event id is `g<ring>.<number>`.
struct GradientRecord {
  RecordHeader header;
  SpanRef span;          // where it was looked at: in `ext`
  std::uint64_t number;  // of the ring's count of spans (RingProducer::next_span)
  double norm;           // with kPresent: finite and > 0
  std::uint32_t thread;
  StrRef root;  // the collection of parameters; not blank
  StrRef key;   // the parameter within it; not blank
  GradientCode state;
  std::uint8_t reserved;
  std::uint16_t ext_members;
};

struct LineRecord {
  RecordHeader header;
  std::uint32_t length;
  std::uint32_t zero;
};

enum class ValueTag : std::uint8_t {
  kTensor = 1,
  kInt,
  kDouble,
  kBool,
  kNone,
  kString,
  kIntList,
  kDoubleList,
  kBoolList,
  kTensorList,
  kOther,
  // Only in the node trees of module calls (module_nodes.h):
  kTuple,    // `count` nodes follow
  kList,     // `count` nodes follow
  kMapping,  // kString class; then `count` times: kString key or kNone, kString class of the key, node
  kScalar,   // `count` bytes, padded: class of a number or text
  kObject,   // `count` bytes, padded: class of anything else
};

enum TensorFlags : std::uint8_t {
  kTensorUndefined = 1,
  kTensorRequiresGrad = 2,
  kTensorNoSizes = 4,
  kTensorNested = 8,   // in node trees only
  kTensorSparse = 16,  // likewise: no strided layout
};

struct ValueHeader {
  ValueTag tag;
  std::uint8_t dtype;        // c10::ScalarType
  std::uint8_t device_type;  // c10::DeviceType
  std::int8_t device_index;
  std::uint8_t ndim;
  std::uint8_t flags;
  std::uint16_t count;  // elements of a list, bytes of a string, 0/1 of a bool
};
static_assert(sizeof(ValueHeader) == 8);

inline constexpr std::uint64_t round_up_8(std::uint64_t value) { return (value + 7) / 8 * 8; }

inline constexpr std::uint32_t kMaxListItems = 64;     // of scalars
inline constexpr std::uint32_t kMaxTensorItems = 256;  // of a tensor list
inline constexpr std::uint32_t kMaxStringBytes = 64;
inline constexpr std::uint32_t kMaxRecordBytes = 16 * 1024;  // half a segment

}  // namespace tensortap::format
