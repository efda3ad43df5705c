// Every bound of the daemon in one place: no producer, however broken, makes it use more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tensortap::collector {

inline constexpr std::size_t kMaxLineBytes = 1024 * 1024;             // without its LF; longer: refused
inline constexpr std::size_t kMaxHeldBytes = 64 * 1024 * 1024;        // of one connection, not yet committed
inline constexpr std::size_t kMaxHeldBytesOfAll = 512 * 1024 * 1024;  // of all connections together
inline constexpr std::size_t kMaxConnections = 1024;
inline constexpr std::size_t kMaxUnsentBytes = 4 * 1024 * 1024;  // replies that a peer does not read
inline constexpr std::size_t kMaxIdentityBytes = 120;
inline constexpr std::size_t kMaxTokenBytes = 256;       // launch
inline constexpr std::size_t kMaxTagBytes = 24 * 1024;   // of all tags of a run, as JSON text
inline constexpr std::size_t kMaxNoteBytes = 16 * 1024;  // of one note line: both fit a meta frame
inline constexpr std::size_t kReadBytes = 256 * 1024;

// A frame is written when this much is whole, or after this long: better compression than a frame per batch,
// and well inside the second within which positions must be released.
inline constexpr std::size_t kPlainFrameBytes = 256 * 1024;
inline constexpr std::size_t kProbeFrameBytes = 1024 * 1024;
inline constexpr std::chrono::milliseconds kPlainQuiet{200};
inline constexpr std::chrono::milliseconds kPlainMaxAge{1000};
inline constexpr std::chrono::milliseconds kProbeMaxAge{50};

inline constexpr std::chrono::seconds kFirstLineTimeout{10};
inline constexpr std::chrono::seconds kResumeGrace{2};       // a connection ended, its process lives
inline constexpr std::chrono::seconds kRestartGrace{10};     // the daemon started, the producer lives
inline constexpr std::chrono::milliseconds kLateHello{500};  // a dead process may have said hello just before
inline constexpr std::chrono::milliseconds kTakeOverRetry{
    20};  // a resumed run is still held by its old connection
inline constexpr std::chrono::milliseconds kWaitPoll{20};  // ctl wait
inline constexpr std::chrono::minutes kMaxWait{60};

}  // namespace tensortap::collector
