#include "audit/kept_config.h"

#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>

#include "audit/lock.h"
#include "base/file.h"
#include "config/literal.h"
#include "config/value.h"

static const char MARK[] = "# The config in effect of ";

enum { FILE_MODE = 0600, CHUNK = 64 * 1024 };

char *kept_config_path(const char *log) { return mem_printf("%s.in-effect.cfg", log); }

// The first line names the file of the config, because one log may serve several configs, one after another. Its directory is
// resolved, and the file is not: in a ConfigMap it is a link that changes with each edit.
static void kept_write_name(const char *config, buffer_t *out) {
    char *copy = mem_str(config), *other = mem_str(config);
    char *dir = realpath(dirname(copy), NULL);
    char *whole = mem_printf("%s/%s", dir ? dir : "", basename(other));
    buffer_str(out, MARK);
    config_quote(whole, out);
    buffer_str(out, "\n");
    free(whole);
    free(dir);
    free(other);
    free(copy);
}

static bool kept_read(const char *path, buffer_t *out) {
    char chunk[CHUNK];
    FILE *file = file_open_regular(path);
    if (!file) return false;
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;) buffer_add(out, chunk, got);
    bool read = !ferror(file);
    fclose(file);
    return read;
}

static bool kept_write_text(int fd, const buffer_t *text) {
    for (size_t at = 0; at < text->len;) {
        ssize_t put = write(fd, text->data + at, text->len - at);
        if (put < 0 && errno != EINTR) return false;
        if (put > 0) at += (size_t)put;
    }
    return true;
}

// A part that exists is of a killed process: the caller holds the lock of the log.
static bool kept_replace(const char *path, const buffer_t *text) {
    char *part = mem_printf("%s.part", path);
    unlink(part);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    bool written = fd >= 0 && kept_write_text(fd, text);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && written) {
        written = false;
        error = errno;
    }
    if (written && rename(part, path) != 0) {
        written = false;
        error = errno;
    }
    if (!written) unlink(part);
    free(part);
    errno = error;
    return written;
}

// Whether nobody else has a file there: an empty one is what a power failure left of a copy.
static bool kept_is_ours(const char *path, const buffer_t *text) {
    struct stat at;
    if (lstat(path, &at) != 0) return true;
    return S_ISREG(at.st_mode) && (at.st_size == 0 || strncmp(buffer_text(text), MARK, sizeof MARK - 1) == 0);
}

bool kept_config_write(const char *log, const config_t *config, buffer_t *why) {
    char *path = kept_config_path(log);
    buffer_t text = {0}, old = {0};
    kept_write_name(config->path, &text);
    config_dump(config, &text);
    bool same = kept_read(path, &old) && old.len == text.len && memcmp(old.data, text.data, text.len) == 0;
    bool ours = kept_is_ours(path, &old), good = ours && (same || kept_replace(path, &text));
    if (!good) buffer_printf(why, "%s: %s", path, ours ? strerror(errno) : "is no copy of a config: move it away");
    if (!good && ours) unlink(path); // an older config is not in effect any more
    buffer_free(&old);
    buffer_free(&text);
    free(path);
    return good;
}

// The values of a copy say where a command sends passwords.
static bool kept_is_trusted(const char *path, const char *log, struct stat *at) {
    struct stat of_log;
    if (lstat(path, at) != 0 || !S_ISREG(at->st_mode) || at->st_mode & (S_IWGRP | S_IWOTH)) return false;
    return at->st_uid == geteuid() || at->st_uid == 0 || (lstat(log, &of_log) == 0 && at->st_uid == of_log.st_uid);
}

bool kept_config_find(const char *log, const char *config, kept_config_t *kept) {
    buffer_t name = {0}, text = {0};
    struct stat at;
    char holder[LOCK_HOLDER_SIZE];
    *kept = (kept_config_t){.path = kept_config_path(log)};
    kept_write_name(config, &name);
    bool found = kept_is_trusted(kept->path, log, &at) && kept_read(kept->path, &text) && text.len > name.len &&
                 memcmp(text.data, name.data, name.len) == 0;
    if (found) kept->since_ms = (int64_t)at.st_mtim.tv_sec * 1000 + at.st_mtim.tv_nsec / 1000000;
    kept->in_effect = found && audit_lock_is_held(log, holder);
    kept->hides = found && strstr(buffer_text(&text), "\"" CONFIG_REDACTED "\"");
    buffer_free(&text);
    buffer_free(&name);
    if (!found) free(kept->path);
    if (!found) kept->path = NULL;
    return found;
}
