/* Fields of INFO. */
#include "kept.h"
#include "server.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the value of a line "name:value" in `info`; NULL = no such line. It ends at the line's end, not at a NUL. */
static const char *field_of(const char *info, const char *name) {
    size_t length = strlen(name);
    for (const char *line = info; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        if (strncmp(line, name, length) == 0 && line[length] == ':') return line + length + 1;
    }
    return NULL;
}

char *server_info(const server_t *server, const char *section) {
    redis_t *r = redis_open(server);
    char *info = redis_str(r, "INFO %s", section);
    redis_close(r);
    return info;
}

long long server_info_int(const server_t *server, const char *section, const char *field) {
    char *info = server_info(server, section);
    const char *value = field_of(info, field);
    long long number = value ? strtoll(value, NULL, 10) : -1;
    free(info);
    return number;
}

long long server_commandstat(const server_t *server, const char *command) {
    char name[128];
    snprintf(name, sizeof(name), "cmdstat_%s", command);
    char *info = server_info(server, "commandstats");
    const char *value = field_of(info, name);
    long long calls = value && strncmp(value, "calls=", 6) == 0 ? strtoll(value + 6, NULL, 10) : 0;
    free(info);
    return calls;
}

char *server_version(const server_t *server, bool *is_valkey) {
    char *info = server_info(server, "server");
    const char *valkey = field_of(info, "valkey_version");
    const char *value = valkey ? valkey : field_of(info, "redis_version");
    cr_assert_not_null(value);
    char *version = strndup(value, strcspn(value, "\r\n"));
    if (is_valkey) *is_valkey = valkey != NULL;
    free(info);
    return kept(version);
}
