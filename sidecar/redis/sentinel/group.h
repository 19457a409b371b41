// The sentinels of one deployment: asks all of them at once for the primary, learns those that the configuration lacks, and
// decides which answer to believe.
//
// ROLE proves nothing. A primary that was killed and comes back calls itself a primary and takes writes until the sentinels
// demote it, some 10 s later; what was written there is then wiped. So the sentinels alone tell where the primary is, and these
// rules close the gaps between their answer and a write:
//
// 1. A connection is used only after an ask that began when the connection was open already (conn_confirm). A server that
//    died, was replaced and came back between the ask and the connect is thus found out: the later ask names its successor. The
//    connection itself cannot outlive the process that it was opened to.
// 2. An open connection survives a SIGSTOP of the server, a cut network and a failover by command, so somebody must end it. The
//    watcher (role/watcher.h) is subscribed to the events of all sentinels, asks every 10 s, and asks again whenever a reply is
//    slow or an error shows another primary. When the answer is a new one, the epoch of the shard rises, and no connection of an
//    older epoch sends another byte, in any role.
// 3. A sidecar that was itself frozen has not read the events, and any of its threads may run first. So the watcher notes twice
//    a second that it has read all events, and after a second without such a note each request asks first (conn_may_send). The
//    end of the lease does not do that: the lock at the former primary can be renewed or acquired there, too. A shorter freeze
//    is shorter than the detection of a dead primary; after a failover by command, it leaves the few ms until the event is read.
// 4. While the sentinels still name a dead server, connects to it fail, and each role backs off. When they name another one, the
//    roles try again at once.
// 5. The leader of a failover knows the new primary first, with a higher config epoch. From then on, answers of a lower epoch are
//    behind, not believed. Only if all sentinels that answer agree on a lower epoch for GROUP_BEHIND_S, were they set up anew.
// 6. A leap of the config epoch that one sentinel alone tells waits for a second one, if another sees its primary alive
//    (sentinel_choose). So one sentinel that somebody has added cannot take the sidecar away from a primary that works.
// 7. If no sentinel answers, open connections go on, because a primary does not change without sentinels; no new one is opened.
//
// One gap remains, in Redis itself: a server that has lost its role does not know it yet, and accepts requests until the
// sentinels have named its successor. `min-replicas-to-write` narrows this window.
#pragma once

#include <stdatomic.h>

#include "config/config.h"
#include "redis/sentinel/answer.h"

typedef struct sentinel_group sentinel_group_t;

enum { SENTINELS_MAX = 32, GROUP_BEHIND_S = 10 };

// `redis` is borrowed. Returns owned. One thread at a time may use a group.
sentinel_group_t *sentinel_group_new(const redis_config_t *redis);
void sentinel_group_free(sentinel_group_t *group); // NULL is fine
// Believes what `old` believed, unless the group itself knows a newer config epoch.
void sentinel_group_inherit(sentinel_group_t *group, const sentinel_group_t *old);

// Asks all sentinels, SENTINEL_TIMEOUT_MS at most. Returns the address of the primary as the sidecar reaches it, borrowed until
// the next ask. NULL: *error tells why the primary is unknown. `stop` may be NULL.
const address_t *sentinel_group_ask(sentinel_group_t *group, const atomic_bool *stop, redis_error_t *error);

int64_t sentinel_group_epoch(const sentinel_group_t *group); // config epoch of the primary
// End of the first certificate of the open connections to sentinels, seconds since 1970; 0 = none has a certificate.
int64_t sentinel_group_certificate_end(const sentinel_group_t *group);
// The answers to the last ask, one for each known sentinel, borrowed until the next ask.
const sentinel_answer_t *sentinel_group_answers(const sentinel_group_t *group, size_t *count);
// Describes in one line why the last answers do not agree, or returns false.
bool sentinel_group_disagrees(const sentinel_group_t *group, char *text, size_t size);
