// A Lua script, embedded by the build. For each a/b/lua/NAME.lua the generated header a/b/scripts.h declares `script_NAME`.
#pragma once

#include "base/std.h"

enum { SCRIPT_SHA1_SIZE = 41 };

typedef struct script {
    const char *name;
    const char *text; // ends in a NUL byte
    size_t len;
    // Before Redis 7 a script must not begin with "#!lua flags=...". For such a server the text begins after the first line
    // (redis 7.0 src/script_lua.c and eval.c, evalExtractShebangFlags).
    size_t first_line_len;
    // Commands of the script, in upper case, and then NULL; without the optional ones of its header, which the script can lack or
    // only some queues need (right_t in dialects/dialect.h).
    const char *const *commands;
    char sha1[SCRIPT_SHA1_SIZE];               // SHA-1 of the text
    char sha1_without_flags[SCRIPT_SHA1_SIZE]; // SHA-1 of the text after the first line
} script_t;

// Every script of the program, collected by the build.
extern const script_t *const all_scripts[];
extern const size_t all_script_count;

enum { FIRST_VERSION_WITH_FLAGS = 70000 };

// The text, with the first line or without.
const char *script_text(const script_t *script, bool flags, size_t *len);
const char *script_sha1(const script_t *script, bool flags); // of that text
