// Tells a service manager how we are, as sd_notify(3) does: datagrams to the socket that NOTIFY_SOCKET names. Without one all of
// this does nothing.
#ifndef QS_APP_SD_NOTIFY_H
#define QS_APP_SD_NOTIFY_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"

typedef struct notify {
    int fd; // owned; -1 = nobody listens
    struct sockaddr_un to;
    socklen_t to_len;
    int64_t beat_ns; // how often the watchdog wants to hear of us; 0 = it does not
    mono_t next;     // the next time
} notify_t;

// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. What is wrong there is logged.
void notify_begin(notify_t *notify);
void notify_end(notify_t *notify);

// The roles run, by a configuration with so many queues. `refused`: a newer one is not in effect.
void notify_ready(const notify_t *notify, size_t queues, bool refused);
// A configuration is being read, or taken; notify_ready ends it.
void notify_reloading(const notify_t *notify);
void notify_stopping(const notify_t *notify);

// When notify_beat is to be called next; never without a watchdog.
mono_t notify_due(const notify_t *notify);
// Tells the watchdog that all is well, or where it is not, nothing.
void notify_beat(notify_t *notify, bool well);

#endif
