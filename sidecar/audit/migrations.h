// The migrations of sql/, embedded by sql/embed.sh in the order of their numbers, without gaps from 1.
#pragma once

#include "base/std.h"

typedef struct migration {
    int schema;       // PRAGMA user_version after the migration; 003_group leaves it at 2
    const char *name; // "001_init"
    const char *sql;
} migration_t;

extern const migration_t migrations[];
extern const size_t migration_count;
