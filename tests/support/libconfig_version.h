#pragma once

#include <stdbool.h>

/* Whether libconfig is older than 1.7: Debian 12 has 1.5, Debian 13 has 1.7. */
bool libconfig_is_old(void);
