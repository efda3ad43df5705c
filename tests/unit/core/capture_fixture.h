// A capture without a daemon: the window is opened here, and what the threads wrote is read back as lines.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "format/event.h"
#include "format/line_reader.h"
#include "format/line_writer.h"
#include "format/stream_rules.h"
#include "probe/core/capture.h"
#include "probe/core/capture_state.h"
#include "probe/core/drain.h"

namespace tensortap::probe::test {

// Keeps what a test asks about: spans in the order of their starts, operators, memory events.
struct Seen : format::EventVisitor {
  struct Span {
    std::string id, parent, name, ext, end_ext;
    std::uint64_t start_ns = 0, duration_ns = 0;
    format::SpanKind kind = format::SpanKind::kFunction;
    std::optional<format::Step> step;
    bool closed = false;
  };
  struct Operator {
    std::string span, name, ext;
    std::uint64_t start_ns = 0, duration_ns = 0;
  };
  std::vector<Span> spans;
  std::vector<Operator> operators;
  std::vector<std::pair<std::string, bool>> memory;  // storage, is_alloc

  const Span* span(const std::string& name) const {
    for (const Span& one : spans) {
      if (one.name == name) return &one;
    }
    return nullptr;
  }
  std::string name_of(const std::string& id) const {
    for (const Span& one : spans) {
      if (one.id == id) return one.name;
    }
    return id == "s0.2" ? "window" : "?";
  }

  void on_span_start(const format::SpanStart& event, const format::Place&) override {
    Span one;
    one.id = event.id;
    one.parent = event.parent_id.value_or("");
    one.name = event.name;
    one.ext = event.ext;
    one.start_ns = event.start_ns;
    one.kind = event.span_kind;
    one.step = event.step;
    place_of_[one.id] = spans.size();
    spans.push_back(one);
  }
  void on_span_end(const format::SpanEnd& event, const format::Place&) override {
    const auto found = place_of_.find(std::string(event.id));
    ASSERT_NE(found, place_of_.end()) << "an end without a stored start: " << event.id;
    Span& one = spans[found->second];
    one.duration_ns = event.duration_ns;
    one.end_ext = event.ext;
    one.closed = true;
  }
  void on_op(const format::Op& event, const format::Place&) override {
    operators.push_back({std::string(event.span_id), std::string(event.op_name), std::string(event.ext),
                         event.timestamp_ns, event.duration_ns});
  }
  void on_memory(const format::Memory& event, const format::Place&) override {
    memory.emplace_back(event.storage_id, event.action == format::MemoryAction::kAlloc);
  }

 private:
  std::unordered_map<std::string, std::size_t> place_of_;
};

class CaptureTest : public ::testing::Test {
 protected:
  void SetUp() override { open(4 << 20); }

  void open(std::uint64_t pool_bytes) {
    // Never freed, nor is the list: threads may still look at it, as in a job.
    static auto* const kept = new std::vector<CaptureState*>;
    capture_ = kept->emplace_back(new CaptureState);
    ASSERT_TRUE(capture_->memory.create(pool_bytes));
    ASSERT_TRUE(capture_->strings.create(&capture_->memory));
    ASSERT_TRUE(capture_->blocks.create());
    ASSERT_TRUE(capture_->tensors.create());
    capture_->clock_zero_ns = capture_->memory.header->clock_zero_ns;
    capture_->memory.header->rings_used.store(1);
    drain_ = std::make_unique<Drain>(capture_->memory);
    open_window(capture_);
  }

  // An operator as the observer begins and ends it.
  void begin_op(const void* key, const char* name) {
    Callback callback;
    ASSERT_TRUE(callback);
    const std::uint64_t now = callback.state().now();
    if (callback.state().drives_steps && !capture_->steps.open) {
      step_work_begins(*capture_, callback.state(), now, true);
    }
    if (Frame* frame = push_frame(callback.state(), FrameType::kOp, key, now)) {
      frame->name = capture_->strings.find_or_add(name);
      frame->scope = 0;
    }
  }
  void begin_range(const void* key, const char* name) {
    Callback callback;
    ASSERT_TRUE(callback);
    if (Frame* frame = push_frame(callback.state(), FrameType::kRange, key, callback.state().now())) {
      frame->name = capture_->strings.find_or_add(name);
      store_frame(callback.state(), callback.state().depth - 1, callback.state().now(), name);
    }
  }
  void end(const void* key) {
    Callback callback;
    ASSERT_TRUE(callback);
    if (Frame* frame = find_frame(callback.state(), key)) {
      end_frame(callback.state(), *frame, callback.state().now());
    } else if (callback.state().overflow != 0) {
      --callback.state().overflow;
    }
  }
  void op(const char* name) {
    begin_op(name, name);
    end(name);
  }
  void call_module(const char* path, std::uint32_t index = 0) {
    module_enter({path, intern(path), intern("Linear"), index, nullptr, format::kStrNone});
    op("aten::linear");
    module_leave(path);
  }

  // Closes the window and reads the stream back, checking each line and the rules between lines and spans.
  Seen finish() {
    if (g_capturing.load()) window_end_ = close_window(capture_, 1000000000);
    Seen seen;
    std::string text;
    Cursors cursors;
    while (drain_->collect(text, cursors)) {
      read(text, seen);
      text.clear();
    }
    check_nesting(seen);
    return seen;
  }

  void read(const std::string& text, Seen& seen) {
    format::LineReader reader;
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = text.find('\n', begin);
      const std::string line = text.substr(begin, end - begin);
      const format::Status status = reader.read(line, {}, seen);
      EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().to_string()) << "\n" << line;
      begin = end + 1;
    }
  }

  void check_nesting(const Seen& seen) {
    std::unordered_map<std::string, const Seen::Span*> by_id;
    for (const Seen::Span& one : seen.spans) by_id[one.id] = &one;
    const auto find = [&](const std::string& id) {
      const auto found = by_id.find(id);
      return found == by_id.end() ? nullptr : found->second;
    };
    for (const Seen::Span& one : seen.spans) {
      const std::uint64_t end = one.start_ns + one.duration_ns;
      if (one.parent == "s0.2") {
        if (one.closed) {
          EXPECT_LE(end, window_end_) << one.name;
        }
        continue;
      }
      const Seen::Span* parent = find(one.parent);
      ASSERT_NE(parent, nullptr) << one.name << " hangs under " << one.parent << ", which is not stored";
      EXPECT_LT(parent, &one) << "a span_start comes before its child's";
      EXPECT_GE(one.start_ns, parent->start_ns) << one.name;
      if (one.closed && parent->closed) {
        EXPECT_LE(end, parent->start_ns + parent->duration_ns) << one.name;
      }
    }
    for (const Seen::Operator& one : seen.operators) {
      if (one.span == "s0.2") continue;
      const Seen::Span* owner = find(one.span);
      ASSERT_NE(owner, nullptr) << one.name;
      EXPECT_GE(one.start_ns, owner->start_ns);
      if (owner->closed) {
        EXPECT_LE(one.start_ns + one.duration_ns, owner->start_ns + owner->duration_ns);
      }
    }
  }

  std::uint64_t counter(format::Counter which) const {
    return capture_->memory.header->counters[static_cast<std::size_t>(which)].load();
  }

  CaptureState* capture_ = nullptr;
  std::unique_ptr<Drain> drain_;
  std::uint64_t window_end_ = 0;
};

}  // namespace tensortap::probe::test
