// What the SDK may know of a tensor that a job hands over (probe/core/sdk.h).
#pragma once

namespace tensortap::probe {

void tensor_access_install() noexcept;

}  // namespace tensortap::probe
