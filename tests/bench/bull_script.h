// Bull's own scripts, from the npm package that tests/clients/install.sh fetches.
#pragma once

#include "bench.h"

#include <glob.h>

#define BULL_VERSION "4.16.5"

static inline void bull_copy_file(FILE *out, const char *path) {
    char line[512];
    FILE *in = fopen(path, "r");
    if (!in) die("cannot read %s", path);
    while (fgets(line, sizeof line, in)) fputs(line, out);
    fputs("\n", out);
    fclose(in);
}

// Loads Bull's script with its includes. Returns the reply with the SHA-1; owned. NULL: the package is not installed.
static inline redisReply *bull_load_script(redisContext *redis, const char *name) {
    const char *clients = getenv("QS_CLIENTS_DIR");
    char path[512];
    char include[1100];
    char line[512];
    snprintf(path, sizeof path, "%s/bull/" BULL_VERSION "/node_modules/bull/lib/commands/%s-*.lua",
             clients ? clients : "build/clients", name);
    glob_t found;
    if (glob(path, 0, NULL, &found) != 0) return NULL;
    snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    globfree(&found);
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!in || !out) die("cannot read %s", path);
    *strrchr(path, '/') = '\0';
    while (fgets(line, sizeof line, in)) {
        const char *part = strstr(line, "@include \"");
        if (!part) {
            fputs(line, out);
            continue;
        }
        part += strlen("@include \"");
        snprintf(include, sizeof include, "%s/%.*s.lua", path, (int)strcspn(part, "\""), part);
        bull_copy_file(out, include);
    }
    fclose(in);
    fclose(out);
    redisReply *sha = redis_ask(redis, "SCRIPT LOAD %s", text);
    free(text);
    return sha;
}
