// What all connections of a daemon share: the store, the threads, and the list of who has just arrived.
//
// Thread rules: all members may be used from any thread. Ownership: outlives every connection and watch.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collector/memory_budget.h"
#include "collector/peer.h"
#include "collector/producers.h"
#include "collector/store.h"

namespace tensortap::collector {

// Something that runs until it is done or told to stop (a connection, a grace watch).
class Stoppable {
 public:
  virtual ~Stoppable() = default;
  virtual void stop() = 0;  // from any thread; returns at once
};

// Everything that is to be told when the daemon stops.
class Roster {
 public:
  // False when the daemon is stopping: the newcomer must not begin.
  bool add(const std::shared_ptr<Stoppable>& member);
  void stop_all();
  std::size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<Stoppable>> members_;
  bool stopping_ = false;
};

// Connections that have not said yet who they are. A `wait` must not answer before those that came first and
// whose process is dead were heard: their run may be of the launch that it asks for.
class Arrivals {
 public:
  std::uint64_t arrive(UniqueFd pidfd);
  void identified(std::uint64_t ticket);
  bool dead_before(std::uint64_t ticket) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, UniqueFd> waiting_;
  std::uint64_t next_ = 1;
};

// How many threads may be busy with runs at once: all but one, so that a disk that hangs never keeps the
// daemon from accepting, answering and ordering.
class WorkGate {
 public:
  class Pass {
   public:
    explicit Pass(WorkGate& gate) : gate_(&gate) {
      if (gate.busy_.fetch_add(1) < gate.places) return;
      --gate.busy_;
      gate_ = nullptr;
    }
    ~Pass() {
      if (gate_ != nullptr) --gate_->busy_;
    }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    WorkGate* gate_;
  };
  int places = 1;  // set before anything runs

 private:
  std::atomic<int> busy_{0};
};

struct Hub {
  explicit Hub(Store& the_store) : store(the_store), budget(the_store.settings().max_memory) {}

  Store& store;
  Arrivals arrivals;
  Producers producers;
  Roster roster;
  MemoryBudget budget;
  WorkGate gate;
  std::atomic<std::size_t> connections{0};
  boost::asio::io_context io;  // goes first: what is pending in it uses the rest
};

// Whether every run of the launch (and of the user, if one is given) whose process is dead is finished.
bool launch_is_settled(const Store& store, std::string_view launch, std::optional<std::uint64_t> uid);

}  // namespace tensortap::collector
