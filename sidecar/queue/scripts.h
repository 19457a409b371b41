// The scripts by number, with their text as the server at hand takes it.
#ifndef QS_QUEUE_SCRIPTS_H
#define QS_QUEUE_SCRIPTS_H

#include <stddef.h>

#include "queue/lua/embed.h"

typedef enum script_id {
#define X(name) SCRIPT_##name,
    SCRIPT_LIST(X)
#undef X
        SCRIPT_COUNT
} script_id_t;

const char *script_name(script_id_t script);

// The text to load, borrowed and static. `version` is the server's (conn_version): before Redis 7 a script may not begin with
// "#!lua flags=...", so there the first line is left out (redis 7.0 src/script_lua.c and eval.c, evalExtractShebangFlags).
const char *script_text(script_id_t script, int version, size_t *len);

#endif
