#include "config_case.h"
#include "kept.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char config_case_dir[64];
char config_case_path[128];

void config_case_forget_environment(void) {
    static const char *const names[] = {"QUEUE_SIDECAR_GROUP",       "QUEUE_SIDECAR_REDIS_HOST", "QUEUE_SIDECAR_REDIS_PORT",
                                        "QUEUE_SIDECAR_REDIS_URL",   "QUEUE_SIDECAR_LOCK_TTL",   "QUEUE_SIDECAR_REDIS_PASSWORD",
                                        "QUEUE_SIDECAR_AUDIT_RETAIN"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

void config_case_begin(void) {
    config_case_forget_environment();
    strcpy(config_case_dir, "/tmp/qs-config-XXXXXX");
    cr_assert_not_null(mkdtemp(config_case_dir));
    snprintf(config_case_path, sizeof config_case_path, "%s/x.cfg", config_case_dir);
}

void config_case_end(void) {
    char other[128];
    snprintf(other, sizeof other, "%s/more.cfg", config_case_dir);
    unlink(other);
    unlink(config_case_path);
    rmdir(config_case_dir);
}

void config_case_write(const char *file, const void *bytes, size_t len) {
    FILE *out = fopen(file, "w");
    cr_assert_not_null(out);
    cr_assert_eq(fwrite(bytes, 1, len, out), len);
    cr_assert_eq(fclose(out), 0);
}

config_t *config_case_read(const char *path, buffer_t *messages) { return config_load(path, dialect_settings, messages); }

config_t *config_case_load(const char *text, buffer_t *messages) {
    config_case_write(config_case_path, text, strlen(text));
    return config_case_read(config_case_path, messages);
}

char *config_case_messages(const buffer_t *messages) {
    buffer_t out = {0};
    const char *text = buffer_text(messages);
    for (const char *hit; (hit = strstr(text, config_case_path)) != NULL; text = hit + strlen(config_case_path)) {
        buffer_add(&out, text, (size_t)(hit - text));
        buffer_str(&out, "F");
    }
    buffer_str(&out, text);
    return kept(out.data ? out.data : mem_str(""));
}

void config_case_expect_fault(const char *text, const char *expected) {
    scoped(buffer_free) buffer_t messages = {0};
    scoped(config_drop) config_t *config = config_case_load(text, &messages);
    cr_expect_null(config, "accepted: %s", text);
    char *got = config_case_messages(&messages);
    cr_expect_str_eq(got, expected, "%s\n got      %s expected %s", text, got, expected);
    free(got);
}

config_t *config_case_good(const char *text, char **warnings) {
    scoped(buffer_free) buffer_t messages = {0};
    config_t *config = config_case_load(text, &messages);
    cr_assert_not_null(config, "refused: %s\n%s", text, buffer_text(&messages));
    char *got = config_case_messages(&messages);
    if (warnings)
        *warnings = got;
    else
        cr_expect_str_eq(got, "", "%s", text);
    if (!warnings) free(got);
    return config;
}

void config_case_expect_faults(const config_case_row_t *rows, size_t count) {
    for (size_t i = 0; i < count; i++) config_case_expect_fault(rows[i].text, rows[i].expected);
}
