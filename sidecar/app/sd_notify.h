// Reports state to the service manager as sd_notify(3) does: datagrams to the socket in NOTIFY_SOCKET. Without that variable it
// does nothing.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"

typedef struct sd_notify {
    int fd; // owned; -1 = no service manager
    struct sockaddr_un to;
    socklen_t to_len;
    int64_t beat_ns; // interval of watchdog messages; 0 = no watchdog
    mono_t next;     // when the next watchdog message is due
} sd_notify_t;

// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and opens the socket. Logs an error.
void sd_notify_begin(sd_notify_t *notify);
void sd_notify_end(sd_notify_t *notify);

// Reports that the roles serve `queues` queues. `refused`: a newer configuration was refused.
void sd_notify_ready(const sd_notify_t *notify, size_t queues, bool refused);
// Reports that a reload has begun; the next sd_notify_ready reports its end.
void sd_notify_reloading(const sd_notify_t *notify);
void sd_notify_stopping(const sd_notify_t *notify);

// When to call sd_notify_beat next; mono_never() without a watchdog.
mono_t sd_notify_due(const sd_notify_t *notify);
// Sends a watchdog message if `well`, and schedules the next call.
void sd_notify_beat(sd_notify_t *notify, bool well);
