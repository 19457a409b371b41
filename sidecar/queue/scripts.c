#include "queue/scripts.h"

#include <string.h>

static const struct {
    const char *name;
    const char *text;
    const size_t *len;
} SCRIPTS[SCRIPT_COUNT] = {
#define X(script) [SCRIPT_##script] = {.name = #script, .text = lua_##script, .len = &lua_##script##_len},
    SCRIPT_LIST(X)
#undef X
};

const char *script_name(script_id_t script) { return SCRIPTS[script].name; }

const char *script_text(script_id_t script, int version, size_t *len) {
    const char *text = SCRIPTS[script].text;
    const char *body = text;
    if (version < 70000 && strncmp(text, "#!", 2) == 0) body = strchr(text, '\n') + 1;
    *len = *SCRIPTS[script].len - (size_t)(body - text);
    return body;
}
