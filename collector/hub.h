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
#include <string>
#include <vector>

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

struct Hub {
  explicit Hub(Store& the_store) : store(the_store) {}

  Store& store;
  Arrivals arrivals;
  Producers producers;
  Roster roster;
  std::atomic<std::size_t> held_by_all{0};
  std::atomic<std::size_t> connections{0};
  boost::asio::io_context io;  // goes first: what is pending in it uses the rest
};

// Whether every run of the launch whose process is dead is finished.
bool launch_is_settled(const Store& store, std::string_view launch);

}  // namespace tensortap::collector
