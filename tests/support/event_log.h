// For tests of readers: one function for events of every kind, and a log of what a reader showed.
//
//   EventLog log;
//   reader.read(line, place, log);
//   EXPECT_EQ(log.lines, "{\"kind\":\"span_end\",…}\n");   // what it showed, written again
//
//   struct Count : EachEvent<Count> {
//     template <class Event> void event(const Event&, const Place&) { ++seen; }
//     int seen = 0;
//   };
//
// Thread rules: plain values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "format/event.h"
#include "format/line_writer.h"

namespace tensortap::format {

// Hands every record to `event(record, place)` of the class that derives from it.
template <class Derived>
class EachEvent : public EventVisitor {
 public:
  void on_meta(const Meta& e, const Place& place) override { self().event(e, place); }
  void on_span_start(const SpanStart& e, const Place& place) override { self().event(e, place); }
  void on_span_end(const SpanEnd& e, const Place& place) override { self().event(e, place); }
  void on_op(const Op& e, const Place& place) override { self().event(e, place); }
  void on_tensor(const Tensor& e, const Place& place) override { self().event(e, place); }
  void on_tensor_stats(const TensorStats& e, const Place& place) override { self().event(e, place); }
  void on_memory(const Memory& e, const Place& place) override { self().event(e, place); }
  void on_device_memory(const DeviceMemory& e, const Place& place) override { self().event(e, place); }
  void on_device_interval(const DeviceInterval& e, const Place& place) override { self().event(e, place); }
  void on_gradient(const Gradient& e, const Place& place) override { self().event(e, place); }
  void on_edge(const Edge& e, const Place& place) override { self().event(e, place); }
  void on_terminal(const Terminal& e, const Place& place) override { self().event(e, place); }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

// The way back: shows one record to a visitor, whatever its kind.
inline void show(EventVisitor& to, const Meta& e, const Place& place) { to.on_meta(e, place); }
inline void show(EventVisitor& to, const SpanStart& e, const Place& place) { to.on_span_start(e, place); }
inline void show(EventVisitor& to, const SpanEnd& e, const Place& place) { to.on_span_end(e, place); }
inline void show(EventVisitor& to, const Op& e, const Place& place) { to.on_op(e, place); }
inline void show(EventVisitor& to, const Tensor& e, const Place& place) { to.on_tensor(e, place); }
inline void show(EventVisitor& to, const TensorStats& e, const Place& place) { to.on_tensor_stats(e, place); }
inline void show(EventVisitor& to, const Memory& e, const Place& place) { to.on_memory(e, place); }
inline void show(EventVisitor& to, const DeviceMemory& e, const Place& place) {
  to.on_device_memory(e, place);
}
inline void show(EventVisitor& to, const DeviceInterval& e, const Place& place) {
  to.on_device_interval(e, place);
}
inline void show(EventVisitor& to, const Gradient& e, const Place& place) { to.on_gradient(e, place); }
inline void show(EventVisitor& to, const Edge& e, const Place& place) { to.on_edge(e, place); }
inline void show(EventVisitor& to, const Terminal& e, const Place& place) { to.on_terminal(e, place); }

// What was shown, in order: each record written again as its line, and where it stood.
class EventLog final : public EachEvent<EventLog> {
 public:
  template <class Event>
  void event(const Event& shown, const Place& place) {
    writer_.write(shown);
    places.push_back(place);
  }

  std::string lines;
  std::vector<Place> places;

 private:
  LineWriter writer_{lines};
};

// Shows each record to several visitors, one after the other.
class Tee final : public EachEvent<Tee> {
 public:
  explicit Tee(std::vector<EventVisitor*> visitors) : visitors_(std::move(visitors)) {}
  template <class Event>
  void event(const Event& shown, const Place& place) {
    for (EventVisitor* visitor : visitors_) show(*visitor, shown, place);
  }

 private:
  std::vector<EventVisitor*> visitors_;
};

}  // namespace tensortap::format
