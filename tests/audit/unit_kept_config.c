/* The copy of the config in effect beside the audit log: what it holds, and whose copy is believed. */
#include "audit/audit.h"
#include "audit/kept_config.h"
#include "config_case.h"
#include "suite.h"
#include "tempdir.h"
#include "text.h"

#include <sys/stat.h>

SUITE(unit_kept_config, config_case_begin(), config_case_end());

#define SENTINELS "sentinels = [\"h:1\"]; master = \"m\"; "

static config_t *load(const char *text) {
    char *warnings;
    return config_case_good(text, &warnings);
}

static char *log_path(void) {
    char *dir = temp_dir("log");
    return kept_printf("%s/audit.db", dir);
}

static char *copy_of(const char *log) { return kept_printf("%s.in-effect.cfg", log); }

static void keep(const char *log, const config_t *config) {
    scoped(buffer_free) buffer_t why = {0};
    cr_assert(kept_config_write(log, config, &why), "%s", buffer_text(&why));
}

static bool finds(const char *log, const char *config) {
    kept_config_t found;
    bool is = kept_config_find(log, config, &found);
    free(found.path);
    return is;
}

static mode_t mode_of(const char *path) {
    struct stat at;
    cr_assert_eq(lstat(path, &at), 0);
    return at.st_mode & 07777;
}

static const char GOOD[] = "redis = { password = \"hunter2\"; }; queues = ( { name = \"email\"; retry_times = 7; } );";

Test(unit_kept_config, a_copy_loads_with_every_value_but_passwords) {
    scoped(config_drop) config_t *config = load(GOOD);
    char *log = log_path(), *copy = copy_of(log), *text;
    kept_config_t found;
    keep(log, config);
    cr_assert(kept_config_find(log, config->path, &found));
    cr_assert_str_eq(found.path, copy);
    cr_assert(found.hides);
    cr_assert_lt(llabs(found.since_ms - (int64_t)time(NULL) * 1000), 60000);
    free(found.path);
    cr_assert_eq(mode_of(copy), 0600);
    text = temp_read(copy);
    cr_assert(!has(text, "hunter2"), "%s", text);
    scoped(config_drop) config_t *again = load(text);
    cr_assert_eq(again->queues[0].policy.retry.times, 7);
    cr_assert_str_empty(again->redis.password);
    free(text);
}

/* A relative path of a secret file, and a user without a password, may be the secret itself. */
Test(unit_kept_config, secrets_that_a_copy_lacks_are_taken_from_another_config) {
    static const struct {
        const char *redis;
        size_t at;
    } rows[] = {{"password = \"hunter2\";", offsetof(config_t, redis.password)},
                {"password_file = \"hunter2\";", offsetof(config_t, redis.password_file)},
                {"url = \"redis://hunter2@h\";", offsetof(config_t, redis.username)},
                {"url = \"redis://u:hunter2@h\";", offsetof(config_t, redis.password)},
                {SENTINELS "sentinel_password = \"hunter2\";", offsetof(config_t, redis.sentinel_password)},
                {SENTINELS "sentinel_password_file = \"hunter2\";", offsetof(config_t, redis.sentinel_password_file)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scoped(buffer_free) buffer_t text = {0};
        scoped(config_drop) config_t *config =
            load(kept_printf("redis = { %s }; queues = ( { name = \"q\"; } );", rows[i].redis));
        config_dump(config, &text);
        cr_assert(!has(buffer_text(&text), "hunter2"), "%s", buffer_text(&text));
        scoped(config_drop) config_t *copy = load(buffer_text(&text));
        char **value = (char **)((char *)copy + rows[i].at);
        cr_assert_str_empty(*value, "%s", rows[i].redis);
        config_take_secrets(copy, config);
        cr_assert_str_eq(*value, "hunter2", "%s", rows[i].redis);
    }
}

Test(unit_kept_config, an_unchanged_copy_keeps_its_time) {
    scoped(config_drop) config_t *config = load(GOOD);
    char *log = log_path(), *copy = copy_of(log);
    struct stat first, second;
    keep(log, config);
    cr_assert_eq(stat(copy, &first), 0);
    keep(log, config);
    cr_assert_eq(stat(copy, &second), 0);
    cr_assert_eq(first.st_ino, second.st_ino);
    scoped(config_drop) config_t *other = load("queues = ( { name = \"sms\"; } );");
    keep(log, other);
    cr_assert(finds(log, other->path));
    cr_assert_eq(stat(copy, &second), 0);
    cr_assert_neq(first.st_ino, second.st_ino);
}

Test(unit_kept_config, a_copy_belongs_to_one_file) {
    scoped(config_drop) config_t *config = load(GOOD);
    char *log = log_path(), *link = kept_printf("%s/link", temp_dir("links")), *dir = kept(mem_str(config->path));
    keep(log, config);
    cr_assert(!finds(log, "/etc/other.cfg"));
    cr_assert(!finds(log, kept_printf("%s2", config->path)));
    *strrchr(dir, '/') = '\0';
    cr_assert_eq(symlink(dir, link), 0);
    cr_assert(finds(log, kept_printf("%s%s", link, strrchr(config->path, '/'))), "the same file by another path");
    cr_assert_eq(unlink(config->path), 0);
    cr_assert(finds(log, config->path), "a removed file has a copy too");
}

/* The values of a copy say where commands send passwords. */
Test(unit_kept_config, a_copy_that_others_may_write_is_not_believed) {
    scoped(config_drop) config_t *config = load(GOOD);
    char *log = log_path(), *copy = copy_of(log), *moved = kept_printf("%s.real", copy);
    keep(log, config);
    cr_assert_eq(chmod(copy, 0620), 0);
    cr_assert(!finds(log, config->path));
    cr_assert_eq(chmod(copy, 0602), 0);
    cr_assert(!finds(log, config->path));
    cr_assert_eq(chmod(copy, 0600), 0);
    cr_assert(finds(log, config->path));
    if (geteuid() == 0) { /* then the owner of the log is believed, and nobody else */
        cr_assert_eq(chown(copy, 12345, (gid_t)-1), 0);
        cr_assert(!finds(log, config->path));
        temp_write(log, "");
        cr_assert(!finds(log, config->path));
        cr_assert_eq(chown(log, 12345, (gid_t)-1), 0);
        cr_assert(finds(log, config->path));
    }
    cr_assert_eq(rename(copy, moved), 0);
    cr_assert_eq(symlink(moved, copy), 0);
    cr_assert(!finds(log, config->path), "a symbolic link");
}

/* Somebody may have a file of this name, even the config itself. */
Test(unit_kept_config, another_file_is_never_replaced, .timeout = 10) {
    scoped(config_drop) config_t *config = load(GOOD);
    char *log = log_path(), *copy = copy_of(log), *target = temp_file("target", "mine"), *text;
    for (int i = 0; i < 2; i++) {
        scoped(buffer_free) buffer_t why = {0};
        if (i == 0)
            temp_write(copy, "mine");
        else
            cr_assert_eq(symlink(target, copy), 0);
        cr_assert(!kept_config_write(log, config, &why));
        cr_assert(has(buffer_text(&why), ": is no copy of a config: move it away"), "%s", buffer_text(&why));
        text = temp_read(copy);
        cr_assert_str_eq(text, "mine");
        free(text);
        cr_assert_eq(unlink(copy), 0);
    }
    scoped(buffer_free) buffer_t why = {0};
    cr_assert_eq(mkfifo(copy, 0600), 0);
    cr_assert(!kept_config_write(log, config, &why) && access(copy, F_OK) == 0 && !finds(log, config->path));
    cr_assert_eq(unlink(copy), 0);
    temp_write(copy, ""); /* after a power failure */
    keep(log, config);
    cr_assert(finds(log, config->path));
}

/* A part is of a killed process, or a link that somebody has laid. */
Test(unit_kept_config, a_part_is_replaced_and_not_followed) {
    scoped(config_drop) config_t *config = load(GOOD);
    char *log = log_path(), *target = temp_file("target", "mine"), *text;
    cr_assert_eq(symlink(target, kept_printf("%s.part", copy_of(log))), 0);
    keep(log, config);
    text = temp_read(target);
    cr_assert_str_eq(text, "mine");
    free(text);
    cr_assert(finds(log, config->path));
}

/* An older config is not in effect any more: better none than that one. */
Test(unit_kept_config, a_copy_that_cannot_be_replaced_is_removed) {
    scoped(config_drop) config_t *config = load(GOOD), *other = load("queues = ( { name = \"b\"; } );");
    scoped(buffer_free) buffer_t why = {0};
    char *log = log_path(), *copy = copy_of(log);
    keep(log, config);
    cr_assert_eq(mkdir(kept_printf("%s.part", copy), 0700), 0);
    cr_assert(!kept_config_write(log, other, &why));
    cr_assert(has(buffer_text(&why), copy), "%s", buffer_text(&why));
    cr_assert_eq(access(copy, F_OK), -1);
}
