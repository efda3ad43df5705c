#include "format/event_batch.h"

#include <functional>
#include <optional>

namespace tensortap::format {
namespace {

// ---- Every text that an event borrows.

template <class Use>
void use_each(Use& use, std::string_view& text) {
  use(text);
}
template <class Use>
void use_each(Use& use, std::optional<std::string_view>& text) {
  if (text) use(*text);
}
template <class Use>
void use_each(Use& use, std::vector<std::string_view>& texts) {
  for (std::string_view& text : texts) use(text);
}

template <class Use>
void each_text(Meta&, Use) {}  // owns its texts
template <class Use>
void each_text(SpanStart& e, Use use) {
  use_each(use, e.id), use_each(use, e.parent_id), use_each(use, e.name), use_each(use, e.ext);
}
template <class Use>
void each_text(SpanEnd& e, Use use) {
  use_each(use, e.id), use_each(use, e.ext);
}
template <class Use>
void each_text(Op& e, Use use) {
  use_each(use, e.span_id), use_each(use, e.op_name), use_each(use, e.inputs), use_each(use, e.output);
  use_each(use, e.dtype), use_each(use, e.device), use_each(use, e.ext);
}
template <class Use>
void each_text(Tensor& e, Use use) {
  use_each(use, e.span_id), use_each(use, e.tensor_id), use_each(use, e.label);
  use_each(use, e.dtype), use_each(use, e.device), use_each(use, e.ext);
}
template <class Use>
void each_text(TensorStats& e, Use use) {
  use_each(use, e.span_id), use_each(use, e.label), use_each(use, e.dtype), use_each(use, e.ext);
}
template <class Use>
void each_text(Memory& e, Use use) {
  use_each(use, e.storage_id), use_each(use, e.tensor_id), use_each(use, e.span_id), use_each(use, e.op_name);
  use_each(use, e.device), use_each(use, e.dtype), use_each(use, e.ext);
}
template <class Use>
void each_text(DeviceMemory& e, Use use) {
  use_each(use, e.device), use_each(use, e.ext);
}
template <class Use>
void each_text(DeviceInterval& e, Use use) {
  use_each(use, e.span_id), use_each(use, e.device), use_each(use, e.stream_id), use_each(use, e.clock_id);
  use_each(use, e.backend), use_each(use, e.ext);
}
template <class Use>
void each_text(Gradient& e, Use use) {
  use_each(use, e.event_id), use_each(use, e.root), use_each(use, e.key), use_each(use, e.ext);
}
template <class Use>
void each_text(Edge& e, Use use) {
  use_each(use, e.from), use_each(use, e.to), use_each(use, e.ext);
}
template <class Use>
void each_text(Terminal& e, Use use) {
  use_each(use, e.reason), use_each(use, e.ext);
}

}  // namespace

class EventBatch::Recorder final : public EventVisitor {
 public:
  explicit Recorder(EventBatch& batch) : batch_(batch) {}

  void on_meta(const Meta& e, const Place& p) override { keep<&EventVisitor::on_meta>(e, p); }
  void on_span_start(const SpanStart& e, const Place& p) override {
    keep<&EventVisitor::on_span_start>(e, p);
  }
  void on_span_end(const SpanEnd& e, const Place& p) override { keep<&EventVisitor::on_span_end>(e, p); }
  void on_op(const Op& e, const Place& p) override { keep<&EventVisitor::on_op>(e, p); }
  void on_tensor(const Tensor& e, const Place& p) override { keep<&EventVisitor::on_tensor>(e, p); }
  void on_tensor_stats(const TensorStats& e, const Place& p) override {
    keep<&EventVisitor::on_tensor_stats>(e, p);
  }
  void on_memory(const Memory& e, const Place& p) override { keep<&EventVisitor::on_memory>(e, p); }
  void on_device_memory(const DeviceMemory& e, const Place& p) override {
    keep<&EventVisitor::on_device_memory>(e, p);
  }
  void on_device_interval(const DeviceInterval& e, const Place& p) override {
    keep<&EventVisitor::on_device_interval>(e, p);
  }
  void on_gradient(const Gradient& e, const Place& p) override { keep<&EventVisitor::on_gradient>(e, p); }
  void on_edge(const Edge& e, const Place& p) override { keep<&EventVisitor::on_edge>(e, p); }
  void on_terminal(const Terminal& e, const Place& p) override { keep<&EventVisitor::on_terminal>(e, p); }

 private:
  template <auto kShow, class Event>
  void keep(const Event& event, const Place& place) {
    Kept<Event>& kept = std::get<Kept<Event>>(batch_.kept_);
    if (kept.used == kept.events.size()) kept.events.emplace_back();
    Event& copy = kept.events[kept.used];
    copy = event;
    each_text(copy, [this](std::string_view& text) { own(text); });
    const auto show = [](const EventBatch& batch, std::size_t at, const Place& where, EventVisitor& visitor) {
      (visitor.*kShow)(std::get<Kept<Event>>(batch.kept_).events[at], where);
    };
    batch_.entries_.push_back({show, kept.used, place});
    ++kept.used;
  }
  // A text within the lines stays where it is; one that the reader decoded is copied.
  void own(std::string_view& text) {
    const std::string& lines = batch_.text_;
    const std::less<const char*> before;
    if (!before(text.data(), lines.data()) && before(text.data(), lines.data() + lines.size())) return;
    text = text.empty() ? std::string_view() : batch_.decoded_.emplace_back(text);
  }

  EventBatch& batch_;
};

void EventBatch::set_lines(std::string_view lines) {
  text_.reserve(lines.size() + kReadableBehind);
  text_.assign(lines);
  text_.append(kReadableBehind, ' ');
  decoded_.clear();
  entries_.clear();
  errors_.clear();
  records_ = bad_lines_ = 0;
  behind_ = {};
  std::apply([](auto&... kept) { ((kept.used = 0), ...); }, kept_);
}

void EventBatch::read(LineReader& reader) {
  Recorder recorder(*this);
  const std::string_view text = std::string_view(text_).substr(0, text_.size() - kReadableBehind);
  records_ = reader.read_lines(text, behind_, recorder, [this](const Error& error) {
    ++bad_lines_;
    if (errors_.size() < kMaxErrors) errors_.push_back(error);
  });
}

void EventBatch::replay(const Place& first, EventVisitor& visitor) const {
  for (const Entry& entry : entries_) entry.show(*this, entry.at, shifted(entry.place, first), visitor);
}

std::vector<Error> EventBatch::errors(const Place& first) const {
  std::vector<Error> errors = errors_;
  for (Error& error : errors) {
    error.line += first.line;
    error.byte_offset += first.byte_offset;
  }
  return errors;
}

}  // namespace tensortap::format
