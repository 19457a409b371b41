#pragma once

#include "config/config.h"

extern const config_dialect_t list_settings;
