// Limits the size of one reply, because a broken or hostile server may send any number of bytes. Can make a flat reply of an
// array.
#pragma once

#include <hiredis/hiredis.h>

#include "redis/socket/flat_reply.h"

#if HIREDIS_MAJOR >= 1
typedef size_t guard_elements_t;
#else
typedef int guard_elements_t;
#endif

enum {
    MAX_REPLY = 16 << 20,         // bytes of a reply without jobs
    MAX_JOB_REPLY = 513 << 20,    // bytes of a reply with jobs; Redis itself holds no text above 512 MiB
    MAX_REPLY_ELEMENTS = 1 << 20, // of all arrays of a reply
};

typedef struct reply_guard {
    redisReplyObjectFunctions functions; // in place of those of hiredis
    const redisReplyObjectFunctions *hiredis;
    flat_reply_t *flat; // the reply under way goes there if it is an array; NULL = hiredis makes objects; borrowed
    size_t bytes;       // received of the reply under way
    size_t elements;    // of its arrays so far
    size_t most_bytes;  // limit of `bytes`
} reply_guard_t;

// The reader borrows the guard.
void guard_install(reply_guard_t *guard, redisReader *reader);
// Begins the next reply, whose first bytes the reader may hold already.
void guard_begin_reply(reply_guard_t *guard, const redisReader *reader);
// Counts bytes that the reader has received. False: the reply is too large.
bool guard_receive(reply_guard_t *guard, const redisReader *reader, size_t bytes);
bool guard_is_exceeded(const reply_guard_t *guard);

bool guard_is_flat(const redisReply *reply); // the reply is in guard->flat, and must not be freed
