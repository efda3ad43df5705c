// What the job says of its run as a whole: tags, and how it is to be compared. They belong into the run's
// `meta`, which is long written: they travel as `note` lines (proto/session.md), which the collector merges
// into it.
//
// Notes are kept for the life of the process: one that is said while nothing is captured is written when a
// capture begins, and each later capture, or forked child, gets them again. What is said twice under one key
// replaces.
//
//   note_tag("commit", "39db95d");   // false: blank, too long, or no room
//   append_notes(text);              // session: at the beginning of a run
//
// Thread rules: any thread. The list is guarded by a flag that nobody waits long for: whoever does not get it
// is told no.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "probe/sdk/tensortap.h"

namespace tensortap::probe {

inline constexpr std::size_t kMaxNotes = 64;
inline constexpr std::size_t kMaxTagKey = 128;     // bytes
inline constexpr std::size_t kMaxTagValue = 1024;  // bytes

bool note_tag(std::string_view key, std::string_view value) noexcept;
bool note_identity(const TensortapIdentity& identity) noexcept;

// Appends all notes as lines; each ends with LF. May throw bad_alloc: not on a job's thread.
void append_notes(std::string& out);

// In a fork's child: the thread that held the flag does not exist here.
void notes_after_fork() noexcept;

}  // namespace tensortap::probe
