// Managed services close connections that are idle for some minutes. So each idle connection sends PING once a minute. A server
// with a short `timeout`, or a balancer, closes them sooner, and PING then comes sooner, too (shard_note_idle_close). The same
// calls renew AUTH.
#pragma once

#include "redis/conn.h"

int64_t conn_keep_alive_ms(const conn_t *conn); // shard_keepalive_ms

// For a connection without outstanding replies: notices that the other side has closed it, renews AUTH and sends PING if they are
// due, and waits for the reply. Anything but OUTCOME_OK: back off; ERROR_IDLE needs no pause.
outcome_t conn_keep_alive(conn_t *conn, redis_error_t *error);
// For a connection that waits for the reply to a blocking command, behind which Redis would not read AUTH: opens another one if
// the password has changed, and then replaces *conn. True: *conn is another connection, and the reply will not come. A refusal
// leaves *conn as it is. auth_renew_at tells when to call it next.
bool conn_replace_blocked(conn_t **conn);
// For a subscribed connection: sends PING if it is due; tracking_read reads the reply. Without a reply the connection is lost.
outcome_t conn_keep_subscriber_alive(conn_t *subscriber, redis_error_t *error);
// The time at which to call these functions next. A closed connection: never.
mono_t conn_keep_alive_at(const conn_t *conn);
mono_t conn_keep_subscriber_alive_at(const conn_t *subscriber);
