// A HAL whose operations are Rust's.
#pragma once

#include "hal/hal.h"
#include "operations.h"

namespace rigel {

risc0::IHalPtr makeHal(const RigelOperations& operations);

}  // namespace rigel
