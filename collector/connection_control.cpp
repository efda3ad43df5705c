// What a control client asks, and the orders that go to probes.
#include <spdlog/spdlog.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "collector/connection.h"

namespace tensortap::collector {

// The producers that a request is about; a start or a stop has gone to them.
std::vector<Producer> Connection::addressed(const ControlRequest& request) const {
  Selector selector = request.selector;
  if (!sees_all()) selector.uid = peer_.uid;
  boost::json::object order;
  switch (request.command) {
    case ControlRequest::Command::kStart:
      order = {{"kind", "start"}, {"capture", request.capture}};
      break;
    case ControlRequest::Command::kStop:
      order = {{"kind", "stop"}};
      break;
    default:
      return hub_.producers.list(selector);
  }
  spdlog::info("process {}: orders {}", peer_.pid, boost::json::serialize(order));
  return hub_.producers.order(selector, boost::json::serialize(order) + "\n");
}

void Connection::answer_control() {
  using Command = ControlRequest::Command;
  const std::string& launch = control_->selector.launch;
  const std::optional<std::uint64_t> uid = sees_all() ? std::nullopt : std::optional(peer_.uid);
  const bool settled = control_->command != Command::kWait ||
                       (!hub_.arrivals.dead_before(arrival_) && launch_is_settled(hub_.store, launch, uid));
  if (!settled && Clock::now() < control_until_) return arm_timer();
  std::string text;
  if (control_->command == Command::kRuns || control_->command == Command::kWait) {
    for (const RunInfo& info : hub_.store.list(launch, uid)) text += control_line(info);
  } else {
    for (const Producer& producer : addressed(*control_)) text += producer_line(producer);
  }
  control_.reset();
  send(text + "{\"kind\":\"end\"}\n");
  close_after_writing();
}

}  // namespace tensortap::collector
