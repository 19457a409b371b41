#include "redis/socket/secret_file.h"

#include "base/file.h"

static const char *secret_path_text(const char *path, secret_path_t show) {
    return show == SECRET_PATH_SHOWN || *path == '/' || *path == '.' ? path : "(hidden)";
}

bool secret_file_read(const char *key, const char *path, secret_path_t show, size_t most_kb, buffer_t *text,
                      redis_error_t *error) {
    const char *shown = secret_path_text(path, show);
    FILE *file = file_open_regular(path);
    if (!file) {
        const char *reason = errno == FILE_NOT_REGULAR ? "not a regular file" : strerror(errno);
        redis_error_set(error, OUTCOME_REFUSED, "cannot read %s %s: %s", key, shown, reason);
        return false;
    }
    char part[4096];
    size_t len;
    while (text->len <= most_kb * 1024 && (len = fread(part, 1, sizeof part, file)) > 0) buffer_add(text, part, len);
    bool failed = ferror(file) != 0;
    explicit_bzero(part, sizeof part);
    fclose(file);
    if (failed)
        redis_error_set(error, OUTCOME_REFUSED, "%s %s cannot be read", key, shown);
    else if (strspn(buffer_text(text), "\r\n") == text->len)
        redis_error_set(error, OUTCOME_REFUSED, "%s %s is empty", key, shown);
    else if (text->len > most_kb * 1024)
        redis_error_set(error, OUTCOME_REFUSED, "%s %s is larger than %zu KiB", key, shown, most_kb);
    else if (memchr(text->data, '\0', text->len))
        redis_error_set(error, OUTCOME_REFUSED, "%s %s holds a NUL byte: write it as plain text", key, shown);
    else
        return true;
    return false;
}

void secret_file_free(buffer_t *text) {
    if (text->data) explicit_bzero(text->data, text->cap);
    buffer_free(text);
}
