#include "app/config_watch.h"

#include <stdalign.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/buffer.h"

int config_watch_begin(const char *path) {
    const char *slash = strrchr(path, '/');
    char *directory = slash ? mem_printf("%.*s", (int)(slash - path + 1), path) : mem_printf(".");
    int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fd >= 0 && inotify_add_watch(fd, directory, IN_MOVED_TO | IN_CREATE | IN_ONLYDIR) < 0) {
        close(fd);
        fd = -1;
    }
    free(directory);
    return fd;
}

bool config_watch_swapped(int fd) {
    alignas(struct inotify_event) char events[4096];
    bool swapped = false;
    for (ssize_t len; (len = read(fd, events, sizeof events)) > 0;)
        for (ssize_t at = 0; at < len;) {
            const struct inotify_event *event = (const void *)(events + at);
            if (event->mask & IN_Q_OVERFLOW || (event->len && strcmp(event->name, "..data") == 0)) swapped = true;
            at += (ssize_t)(sizeof *event + event->len);
        }
    return swapped;
}
