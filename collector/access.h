// Who may read a run besides the daemon: the user whose job it is.
//
//   Status given = let_read(folder, peer.uid);      // r-x on the folder, r on what will be made in it
//
// By an access control list, never by giving the folder away: in a folder of its own a user could put a link
// where the daemon writes its next file. Errors: kIo, also where the file system knows no such lists.
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "format/result.h"

namespace tensortap::collector {

format::Status let_read(const std::string& folder, std::uint64_t uid);

}  // namespace tensortap::collector
