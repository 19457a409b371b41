/* Runs the workers of the dialects in their own languages and with their own libraries. tests/clients/README.md describes the
 * programs, their jobs and the lines that they print. A function that does not succeed prints the stderr of the programs and
 * fails the test. */
#pragma once

#include "child.h"
#include "server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct native {
    char *run; /* the launcher; owned */
    char *dir; /* working directory of the programs, with the files out and err; owned */
    char url[64];
} native_t;

/* One line that a program printed: WORD KEY MS DETAIL. */
typedef struct {
    char *word; /* taken, done, failed, ... */
    char *key;  /* KIND-NUMBER, or - */
    int64_t ms; /* the time, by the clock of this host */
    char *detail;
} native_line_t;

typedef struct {
    native_line_t *lines;
    size_t count;
    char *text; /* what the lines point into */
} native_lines_t;

/* Returns the launcher of build/clients/<client>, owned by the caller. If the launcher is missing, skips the test, or fails it
 * with QS_CLIENTS_REQUIRED=1, as in CI. */
char *native_launcher(const char *client);

/* Prepares the programs of build/clients/<client> for this server, which must listen on TCP. Skips like native_launcher. */
native_t native_begin(const char *client, const server_t *server);
/* Frees it; fails the test if a program has printed a line `error`. */
void native_end(native_t *native);

/* Starts a program; args end with NULL, and so does env ("NAME=value", may be NULL); stdin is empty unless `in` is a text. Its
 * stdout goes to the file that all programs of this native_t share. Owned by the caller: child_free. */
child_t *native_start(const native_t *native, const char *const *args, const char *const *env, const char *in);
#define native_run(native, ...) native_start(native, (const char *const[]){__VA_ARGS__, NULL}, NULL, NULL)
/* Runs such a program to its end; fails the test unless it exits with 0. */
void native_finish(const native_t *native, const char *const *args, const char *const *env, const char *in);

/* Returns the complete lines printed so far; owned by the caller: native_free_lines. */
native_lines_t native_lines(const native_t *native);
void native_free_lines(native_lines_t *lines);
/* Counts the lines with this word and this key (NULL: any). */
int native_count(const native_t *native, const char *word, const char *key);
void native_fail(const native_t *native, const char *why);
