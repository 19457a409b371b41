#ifndef QS_DIALECTS_LIST_CONFIG_H
#define QS_DIALECTS_LIST_CONFIG_H

#include "config/config.h"

extern const config_dialect_t list_settings;

#endif
