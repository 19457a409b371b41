#include "audit/path_check.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "audit/lock.h"
#include "audit/store.h"

enum { MIB = 1024 * 1024, LEAST_MIB = 16 }; // of free room, at which a full disk is near

typedef struct site {
    const char *path;
    char *dir; // owned
    int64_t most_bytes;
    audit_site_fn *found;
    void *self;
    buffer_t text;
} site_t;

static void tell(site_t *site, audit_finding_t finding) {
    site->found(site->self, finding, buffer_text(&site->text));
    buffer_clear(&site->text);
}

static bool may_write(site_t *site) {
    bool there = access(site->path, F_OK) == 0;
    bool file = !there || access(site->path, W_OK) == 0, dir = access(site->dir, W_OK | X_OK) == 0;
    if (file && dir) return true;
    if (errno == EROFS)
        buffer_printf(&site->text, "audit log %s: the file system is read-only: set audit.path to one that can be written",
                      site->path);
    else if (!file)
        buffer_printf(&site->text, "audit log %s: this user may not write to the file", site->path);
    else
        buffer_printf(&site->text,
                      "audit log %s: this user may not write to the directory %s, where SQLite keeps files beside the log",
                      site->path, site->dir);
    tell(site, AUDIT_FAULT);
    return false;
}

// A log that is there must be one of ours, and not of a newer version.
static bool is_ours(site_t *site) {
    struct stat at;
    if (stat(site->path, &at) != 0 || at.st_size == 0) return true;
    audit_t *audit = audit_open(site->path, AUDIT_PEER, &site->text);
    if (!audit) tell(site, AUDIT_FAULT);
    audit_close(audit);
    return audit != NULL;
}

static int64_t size_of(const char *path) {
    struct stat at;
    return stat(path, &at) == 0 ? (int64_t)at.st_size : 0;
}

static void look_at_room(site_t *site) {
    struct statvfs system;
    if (statvfs(site->dir, &system) != 0) return;
    int64_t room = (int64_t)system.f_bavail * (int64_t)system.f_frsize;
    int64_t wanted = site->most_bytes > 0 ? site->most_bytes - size_of(site->path) : 0;
    if (wanted < LEAST_MIB * MIB) wanted = LEAST_MIB * MIB;
    if (room >= wanted) return;
    buffer_printf(&site->text,
                  "audit log %s: the disk has room for %" PRId64 " MiB, the log may grow by %" PRId64
                  " MiB (audit.retain_bytes): make room, or set that lower",
                  site->path, room / MIB, wanted / MIB);
    tell(site, room < MIB ? AUDIT_FAULT : AUDIT_WARNING);
}

void audit_look_at_site(const char *path, int64_t most_bytes, audit_site_fn *found, void *self) {
    site_t site = {.path = path, .most_bytes = most_bytes, .found = found, .self = self};
    char *copy = mem_str(path);
    char holder[LOCK_HOLDER_SIZE];
    site.dir = mem_str(dirname(copy));
    if (!audit_file_fits(path, AUDIT_WRITE, &site.text)) {
        tell(&site, AUDIT_FAULT);
    } else if (may_write(&site) && is_ours(&site)) {
        look_at_room(&site);
        if (audit_lock_is_held(path, holder))
            buffer_printf(&site.text, "audit log %s: a sidecar (%s) writes it now; another one needs an audit.path of its own",
                          path, holder);
        else
            buffer_printf(&site.text, "audit log %s: can be written, and nobody holds it", path);
        tell(&site, AUDIT_GOOD);
    }
    buffer_free(&site.text);
    free(site.dir);
    free(copy);
}
