// How far the preload part has come in its process: the values of `tensortap_preload_state`, an int that it
// exports and trace-attach reads in the job's memory. C and C++.
#pragma once

enum TtPreloadState {
  kTtOff,       // disabled, another copy's business, or the constructor has not run yet
  kTtIdle,      // nothing of torch seen
  kTtWatching,  // the watcher lives
  kTtArming,    // a backend is being loaded and started
  kTtDone,      // armed, or disarmed for good
  kTtUntold,    // in a running job, which trace-attach has not told us the settings of yet
};
