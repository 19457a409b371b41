/* In a file of its own, because libconfig and the product both have a config_t. */
#include "libconfig_version.h"

#include <libconfig.h>

bool libconfig_is_old(void) { return LIBCONFIG_VER_MAJOR == 1 && LIBCONFIG_VER_MINOR < 7; }
