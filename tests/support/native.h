/* The workers of the dialects in their own languages and with their own libraries: tests/clients/README.md says what they are,
 * and what the jobs and the lines look like. All functions fail the test, with what the programs wrote on stderr, where they
 * cannot do what they are asked. */
#pragma once

#include "child.h"
#include "server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct native {
    char *run; /* the launcher; owned */
    char *dir; /* where the programs work and where out, err are; owned */
    char url[64];
} native_t;

/* One line that a program printed: WORD KEY MS DETAIL. */
typedef struct {
    char *word; /* taken, done, failed, ... */
    char *key;  /* KIND-NUMBER, or - */
    int64_t ms; /* when, by the clock of this host */
    char *detail;
} native_line_t;

typedef struct {
    native_line_t *lines;
    size_t count;
    char *text; /* what the lines point into */
} native_lines_t;

/* The launcher of build/clients/<client>; owned by the caller. Where it is missing the test is skipped, or fails when
 * QS_CLIENTS_REQUIRED=1, as in CI. */
char *native_launcher(const char *client);

/* The programs of build/clients/<client> for this server, which must listen on TCP; or as native_launcher has it. */
native_t native_begin(const char *client, const server_t *server);
/* Fails the test when a program said `error`. */
void native_end(native_t *native);

/* Starts a program; args end with NULL, and so does env ("NAME=value", may be NULL); stdin is empty unless `in` is a text. What
 * it prints goes to the one file of all programs of this stand. Owned by the caller: child_free. */
child_t *native_start(const native_t *native, const char *const *args, const char *const *env, const char *in);
#define native_run(native, ...) native_start(native, (const char *const[]){__VA_ARGS__, NULL}, NULL, NULL)
/* The same, waits for its good end and frees it. */
void native_finish(const native_t *native, const char *const *args, const char *const *env, const char *in);

/* What was printed so far; owned by the caller: native_free_lines. A line that is not yet whole is left out. */
native_lines_t native_lines(const native_t *native);
void native_free_lines(native_lines_t *lines);
/* How many of them have this word and this key (NULL: any). */
int native_count(const native_t *native, const char *word, const char *key);
void native_fail(const native_t *native, const char *why);
