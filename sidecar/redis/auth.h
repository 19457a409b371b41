// AUTH: at the connect, and again when the password file holds another password. Servers end a connection when its token ends.
#pragma once

#include "redis/conn.h"

// Reads the password to send, and remembers it as the connection's. Owned; NULL = *error.
char *auth_password(conn_t *conn, redis_error_t *error);
// Appends AUTH if the user or the password asks for it. True: it did.
bool auth_append(conn_t *conn, const char *password);
// Sends the pipeline and wipes the password from the buffer.
outcome_t auth_flush(conn_t *conn, redis_error_t *error);

// Sends AUTH if the topology knows of another password than the connection's. Call it only when no reply is outstanding. A
// refusal is logged once and leaves the connection as it is; the next attempt follows after some seconds.
outcome_t auth_renew(conn_t *conn, redis_error_t *error);
mono_t auth_renew_at(const conn_t *conn); // when auth_renew must be called next

// Notes that another connection was to be opened with the newest password instead. The connections that can send AUTH report a
// refusal.
void auth_note_attempt(conn_t *conn, bool accepted);

// Whether to replace `subscriber`, which cannot send AUTH: `data` has the newest password, and `subscriber` an older one.
bool auth_is_outdated(const conn_t *data, const conn_t *subscriber);
