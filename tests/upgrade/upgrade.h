/* The program of the previous release and the program of this tree, side by side in group g. */
#pragma once

#include "cluster.h"

typedef enum { PREVIOUS, CURRENT, PROGRAMS } program_t;
static inline program_t other_than(program_t program) { return program == PREVIOUS ? CURRENT : PREVIOUS; }

enum { UPGRADE_MS = 15000 };

/* Waits for a condition, and fails the test with the logs of all sidecars. */
#define await(cluster, cond)                                                                                                     \
    do {                                                                                                                         \
        if (!wait_for(cond, UPGRADE_MS)) cluster_fail(cluster, "did not happen: " #cond);                                        \
    } while (0)

/* Path of a program. Builds the previous release if needed. If that is impossible, skips the test; with QS_CLIENTS_REQUIRED=1, as
 * in CI, fails it. */
const char *upgrade_program(program_t program);
/* Runs a line of sh, in which $PROGRAM is the program. */
const daemon_output_t *upgrade_shell(program_t program, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Expects each line that the previous release prints among the lines of this one; `what` names the interface in a failure. */
void upgrade_expect_kept(const char *what, const char *previous, const char *current);
/* The same for the output of a line of sh, which both programs run. */
void upgrade_expect_same(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The value of a Lua expression in Redis; true is 1, false and nil are 0. The expression may call these functions:
 * records(stream, kind) and above(hash, number) count records of a kind and values above a number, found(list, pattern) counts
 * entries. */
long long upgrade_lua(redis_t *r, const char *expression);

/* Starts a sidecar, which belongs to the cluster, on this audit log (NULL: its own). */
daemon_t *upgrade_sidecar(cluster_t *cluster, program_t program, sidecar_t spec, const char *log);
/* Whether this sidecar holds the lock, or stands by for it. Asks Redis, because log texts may differ between releases. */
bool upgrade_leads(redis_t *r, const daemon_t *d);
bool upgrade_stands_by(redis_t *r, const daemon_t *d);

/* A sidecar of each program. */
typedef struct {
    cluster_t cluster;
    daemon_t *sidecars[PROGRAMS];
    const char *logs[PROGRAMS];
    program_t leader;
} pair_t;
pair_t pair_begin(program_t leader, sidecar_t spec);
/* Ends the leader by this signal, waits until the other sidecar leads, restarts the ended one and waits until it stands by. */
void pair_take_over(pair_t *pair, int signal);
/* Terminates both, one after the other; both must exit with 0. */
void pair_stop(const pair_t *pair);
