// Tells a service manager how we are, as sd_notify(3) does: datagrams to the socket that NOTIFY_SOCKET names. Without one all of
// this does nothing.
#ifndef QS_APP_SD_NOTIFY_H
#define QS_APP_SD_NOTIFY_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"

typedef struct sd_notify {
    int fd; // owned; -1 = nobody listens
    struct sockaddr_un to;
    socklen_t to_len;
    int64_t beat_ns; // how often the watchdog wants to hear of us; 0 = it does not
    mono_t next;     // the next time
} sd_notify_t;

// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. What is wrong there is logged.
void sd_notify_begin(sd_notify_t *notify);
void sd_notify_end(sd_notify_t *notify);

// The roles run, by a configuration with so many queues. `refused`: a newer one is not in effect.
void sd_notify_ready(const sd_notify_t *notify, size_t queues, bool refused);
// A configuration is being read, or taken; sd_notify_ready ends it.
void sd_notify_reloading(const sd_notify_t *notify);
void sd_notify_stopping(const sd_notify_t *notify);

// When sd_notify_beat is to be called next; never without a watchdog.
mono_t sd_notify_due(const sd_notify_t *notify);
// Tells the watchdog that all is well, or where it is not, nothing.
void sd_notify_beat(sd_notify_t *notify, bool well);

#endif
