#include "native.h"

#include "tempdir.h"
#include "wait.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { END_MS = 60000 };

char *native_launcher(const char *client) {
    const char *clients = getenv("QS_CLIENTS_DIR"), *required = getenv("QS_CLIENTS_REQUIRED");
    char *dir = temp_path(clients && *clients ? clients : "build/clients", client);
    char *skipped = temp_path(dir, "skipped"), *why = temp_read(skipped), *path = temp_path(dir, "run");
    char *run = realpath(path, NULL);
    why[strcspn(why, "\n")] = '\0';
    if (!run) {
        const char *reason = *why ? why : "run sh tests/clients/install.sh";
        cr_assert(!required || strcmp(required, "1") != 0, "no %s: %s", client, reason);
        cr_skip("no %s: %s", client, reason);
    }
    return run;
}

native_t native_begin(const char *client, const server_t *server) {
    native_t native = {.run = native_launcher(client)};
    native.dir = temp_dir(client);
    snprintf(native.url, sizeof(native.url), "REDIS_URL=redis://127.0.0.1:%d", server_port(server));
    return native;
}

void native_end(native_t *native) {
    if (native_count(native, "error", NULL) > 0) native_fail(native, "a client had an error");
    free(native->run);
    free(native->dir);
}

child_t *native_start(const native_t *native, const char *const *args, const char *const *env, const char *in) {
    enum { MOST = 16 };
    const char *argv[MOST + 6] = {"sh", "-c", "in=$1; shift; exec \"$0\" \"$@\" <\"$in\"", native->run};
    const char *all[MOST + 1] = {native->url};
    char *input = NULL, *out = temp_path(native->dir, "out"), *err = temp_path(native->dir, "err");
    if (in) {
        input = temp_path(native->dir, "in");
        temp_write(input, in);
    }
    argv[4] = input ? input : "/dev/null";
    for (size_t i = 0; i < MOST && args[i]; i++) argv[i + 5] = args[i];
    for (size_t i = 0; env && i < MOST - 1 && env[i]; i++) all[i + 1] = env[i];
    child_t *child = child_start(&(child_spec_t){.argv = argv, .env = all, .dir = native->dir, .out = out, .err = err});
    return child;
}

void native_finish(const native_t *native, const char *const *args, const char *const *env, const char *in) {
    child_t *child = native_start(native, args, env, in);
    if (!child_wait(child, END_MS)) native_fail(native, "a program does not end");
    if (child->exit_code != 0) native_fail(native, "a program failed");
    child_free(child);
}

native_lines_t native_lines(const native_t *native) {
    char *path = temp_path(native->dir, "out");
    native_lines_t all = {.text = temp_read(path)};
    size_t most = 0;
    for (const char *at = all.text; (at = strchr(at, '\n')); at++) most++;
    all.lines = calloc(most + 1, sizeof(*all.lines));
    cr_assert(all.lines);
    char *rest = all.text;
    while (all.count < most) {
        char *line = strsep(&rest, "\n"), *word = strsep(&line, " "), *key = strsep(&line, " "), *ms = strsep(&line, " ");
        if (!line) native_fail(native, "a line is not WORD KEY MS DETAIL");
        all.lines[all.count++] = (native_line_t){.word = word, .key = key, .ms = strtoll(ms, NULL, 10), .detail = line};
    }
    free(path);
    return all;
}

void native_free_lines(native_lines_t *lines) {
    free(lines->lines);
    free(lines->text);
}

int native_count(const native_t *native, const char *word, const char *key) {
    native_lines_t all = native_lines(native);
    int count = 0;
    for (size_t i = 0; i < all.count; i++)
        count += strcmp(all.lines[i].word, word) == 0 && (!key || strcmp(all.lines[i].key, key) == 0);
    native_free_lines(&all);
    return count;
}

void native_fail(const native_t *native, const char *why) {
    char *path = temp_path(native->dir, "err"), *text = temp_read(path);
    fprintf(stderr, "stderr of the programs:\n%s\n", text);
    native_lines_t all = native_lines(native);
    for (size_t i = 0; i < all.count; i++)
        if (strcmp(all.lines[i].word, "error") == 0) fprintf(stderr, "error: %s\n", all.lines[i].detail);
    native_free_lines(&all);
    free(text);
    free(path);
    cr_assert_fail("%s", why);
}
