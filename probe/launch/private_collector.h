// A collector for one launch, on a socket of its own, seen from trace-run (the other side is keeper.h).
//
// It is in a session of its own: Ctrl-C stops the job and not the collector. It ends by stop(), by linger(),
// or, when trace-run ends without either (killed, or turned into the job), when the launch is over.
//
// Thread rules: one thread. Ownership: the collector's socket folder belongs to the keeper once start()
// succeeded.
//
//   auto collector = PrivateCollector::start({.state = state, .folder = folder, .launch = token});
//   if (!collector) fail(collector.error().message);
//   …run the job with collector->socket()…
//   collector->stop();
#pragma once

#include <sys/types.h>

#include <string>

#include "format/result.h"
#include "probe/launch/fd.h"

namespace tensortap::probe {

struct PrivateCollectorPlace {
  std::string state;   // made when it does not exist
  std::string folder;  // of make_private_folder()
  std::string launch;
  pid_t job = 0;             // a running process that was attached to: the collector stays until it ends, too
  bool becomes_job = false;  // trace-run will exec: the job must not find a child that it never made
};

class PrivateCollector {
 public:
  // Returns when the collector answers (at most 5 s). A state folder that another collector holds is not an
  // error: the traces then go to a folder inside it.
  static format::Result<PrivateCollector> start(const PrivateCollectorPlace& place);

  const std::string& socket() const { return socket_; }
  const std::string& state() const { return state_; }  // where the traces go

  void stop();    // returns when it ended
  void linger();  // returns at once; it ends with the launch's last process

 private:
  PrivateCollector() = default;
  static format::Result<PrivateCollector> start_in(const PrivateCollectorPlace& place,
                                                   const std::string& state);

  std::string socket_;
  std::string state_;
  Fd control_;
  pid_t keeper_ = -1;  // when it is a child of this process
};

}  // namespace tensortap::probe
