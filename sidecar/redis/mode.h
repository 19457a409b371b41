// Finds out whether the server is a node of a Cluster, if the config leaves it open.
#pragma once

#include "config/config.h"

// Asks the server of host and port once, for a second at most. AUTO: no answer, or the login is refused. SINGLE: also
// if the server refuses INFO.
redis_mode_t redis_find_mode(const redis_config_t *redis);
