#include "redis/script.h"

enum { FIRST_VERSION_WITH_FLAGS = 70000 };

const char *script_text(const script_t *script, int version, size_t *len) {
    size_t skip = version < FIRST_VERSION_WITH_FLAGS ? script->first_line_len : 0;
    *len = script->len - skip;
    return script->text + skip;
}

const char *script_sha1(const script_t *script, int version) {
    return version < FIRST_VERSION_WITH_FLAGS ? script->sha1_without_flags : script->sha1;
}
