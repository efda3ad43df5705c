// Stands in for Kineto's header of this name where a torch ships without it (Debian's libtorch 1.13): torch's
// profiler headers include it, but need no more than this declaration.
#pragma once

namespace libkineto {
enum class ActivityType;
}
