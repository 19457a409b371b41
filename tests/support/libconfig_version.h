#pragma once

#include <stdbool.h>

/* 1.5, of Debian 12, and what came before 1.7, of Debian 13. */
bool libconfig_is_old(void);
