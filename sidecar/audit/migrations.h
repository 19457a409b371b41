// The migrations of sql/, embedded by sql/embed.sh in the order of their numbers.
#pragma once

#include "base/std.h"

typedef struct migration {
    int schema;       // PRAGMA user_version after the migration
    const char *name; // "001_init"
    const char *sql;
} migration_t;

extern const migration_t migrations[];
extern const size_t migration_count;
