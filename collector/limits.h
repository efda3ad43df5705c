// Every bound of the daemon in one place: no producer, however broken, makes it use more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tensortap::collector {

inline constexpr std::size_t kMaxLineBytes = 1024 * 1024;             // without its LF; longer: refused
inline constexpr std::size_t kMaxHeldBytes = 64 * 1024 * 1024;        // of one connection, not yet committed
inline constexpr std::size_t kMaxHeldBytesOfAll = 512 * 1024 * 1024;  // of all connections (--max-memory)
inline constexpr std::size_t kMaxConnections = 1024;                  // --max-connections
inline constexpr std::size_t kMaxUnsentBytes = 4 * 1024 * 1024;       // replies that a peer does not read
inline constexpr std::size_t kMaxIdentityBytes = 120;
inline constexpr std::size_t kMaxTokenBytes = 256;          // launch
inline constexpr std::size_t kMaxPathBytes = 4096;          // exe
inline constexpr std::size_t kMaxCommandBytes = 16 * 1024;  // of all words of a command line
inline constexpr std::size_t kMaxCountsBytes = 256 * 1024;  // of the last `counts` of a probe
inline constexpr std::size_t kMaxTagBytes = 24 * 1024;      // of all tags of a run, as JSON text
inline constexpr std::size_t kMaxNoteBytes = 16 * 1024;     // of one note line: both fit a meta frame
inline constexpr std::size_t kReadBytes = 256 * 1024;

// A frame is written when this much is whole, or after this long: better compression than a frame per batch,
// and well inside the second within which positions must be released.
inline constexpr std::size_t kPlainFrameBytes = 256 * 1024;
inline constexpr std::size_t kProbeFrameBytes = 1024 * 1024;
inline constexpr std::chrono::milliseconds kPlainQuiet{200};
inline constexpr std::chrono::milliseconds kPlainMaxAge{1000};
inline constexpr std::chrono::milliseconds kProbeMaxAge{50};

inline constexpr std::chrono::milliseconds kDiskRetry{500};        // a probe's frame that the disk refused
inline constexpr std::chrono::milliseconds kSyncInterval{1000};    // --durability second
inline constexpr std::chrono::milliseconds kMemoryRetry{20};       // a sender waits for memory
inline constexpr std::chrono::milliseconds kMemoryPatience{2000};  // then who holds too much is cut
inline constexpr std::chrono::milliseconds kWorkerRetry{2};        // every thread but one waits for the disk
inline constexpr std::chrono::seconds kUpkeepInterval{5};

inline constexpr std::chrono::seconds kFirstLineTimeout{10};
inline constexpr std::chrono::seconds kResumeGrace{2};       // a connection ended, its process lives
inline constexpr std::chrono::seconds kRestartGrace{10};     // the daemon started, the producer lives
inline constexpr std::chrono::milliseconds kLateHello{500};  // a dead process may have said hello just before
inline constexpr std::chrono::milliseconds kTakeOverRetry{
    20};  // a resumed run is still held by its old connection
inline constexpr std::chrono::milliseconds kWaitPoll{20};  // ctl wait
inline constexpr std::chrono::minutes kMaxWait{60};

}  // namespace tensortap::collector
