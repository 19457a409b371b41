/* Replaces the failpoint() of the product, which does nothing, in the suite and in build/tests/queue-sidecar. */
#include "base/failpoint.h"
#include "base/std.h"

#include <stdatomic.h>

void failpoint(const char *name) {
    static atomic_long reached; /* counts the named point */
    const char *wanted = getenv("QS_CRASH_AT");
    if (!wanted) return;
    size_t len = strcspn(wanted, ":");
    if (strlen(name) != len || strncmp(wanted, name, len) != 0) return;
    long nth = wanted[len] == ':' ? strtol(wanted + len + 1, NULL, 10) : 1;
    if (atomic_fetch_add(&reached, 1) + 1 >= nth) _exit(137);
}
