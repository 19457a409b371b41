// The audit log: one SQLite file that holds every event in the lives of failed jobs. The only room that knows SQLite.
//
// One thread writes (the auditor); readers open it for themselves. Errors come back as text in *why, which says what to do.
#ifndef QS_AUDIT_AUDIT_H
#define QS_AUDIT_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "event.h"

typedef struct audit audit_t;

typedef enum audit_mode {
    AUDIT_WRITE, // creates and migrates what is not there
    AUDIT_READ,  // changes nothing; fails where there is no log
    AUDIT_PEER,  // the same, and takes older schemas too: their table `events` is there
} audit_mode_t;

// Opens the log at `path`. WAL, synchronous=FULL, foreign or newer files are refused. Returns owned, or NULL with the reason.
audit_t *audit_open(const char *path, audit_mode_t mode, buffer_t *why) __attribute__((warn_unused_result));
void audit_close(audit_t *audit); // takes; NULL is fine

// A random text made with the file: who acknowledges.
const char *audit_instance(const audit_t *audit);

enum { AUDIT_POSITION_SIZE = 48 };
// The id of the last stream entry of `queue` that is in the log; "0-0" when there is none yet.
bool audit_position(audit_t *audit, const char *queue, char position[AUDIT_POSITION_SIZE], buffer_t *why);

// One transaction: begin, any number of puts and moves, then commit; after a false anywhere, rollback. An event that is there
// already is left alone (by its id), so reading a stream again is harmless. *added, where not NULL, tells whether it was new. An
// event without an id (event_ref says so) is refused: pass over those of strangers. Bytes that are no UTF-8 are kept exactly in
// payload and error, and escaped in all other texts.
bool audit_begin(audit_t *audit, buffer_t *why);
bool audit_put(audit_t *audit, const event_t *event, bool *added, buffer_t *why);
bool audit_move(audit_t *audit, const char *queue, const char *position, buffer_t *why);
bool audit_commit(audit_t *audit, buffer_t *why); // on disk when it returns true
void audit_rollback(audit_t *audit);

// How long another writer is waited for, in ms; 5,000 if not told.
void audit_patience(audit_t *audit, int ms);

#endif
