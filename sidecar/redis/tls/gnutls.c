#include "redis/tls/gnutls.h"

#include <dlfcn.h>
#include <pthread.h>

static const char LIBRARY[] = "libgnutls.so.30"; // the same in Debian 12 and 13

static const struct {
    const char *name;
    size_t offset; // of the member in gnutls_t
} functions[] = {
#define GNUTLS_ROW(name) {"gnutls_" #name, offsetof(gnutls_t, name)},
    GNUTLS_FUNCTIONS(GNUTLS_ROW)
#undef GNUTLS_ROW
};

static gnutls_t gnutls;
static char gnutls_failure[200]; // "" = the library is loaded
static pthread_once_t gnutls_once = PTHREAD_ONCE_INIT;

static void gnutls_load_once(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool good = library != NULL;
    for (size_t i = 0; good && i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(library, functions[i].name);
        good = function != NULL;
        memcpy((char *)&gnutls + functions[i].offset, &function, sizeof function);
    }
    if (!good) snprintf(gnutls_failure, sizeof gnutls_failure, "%s", dlerror());
}

const gnutls_t *gnutls_load(redis_error_t *error) {
    pthread_once(&gnutls_once, gnutls_load_once);
    if (!*gnutls_failure) return &gnutls;
    redis_error_set(error, OUTCOME_REFUSED, "TLS needs the library GnuTLS (Debian package libgnutls30 or libgnutls30t64): %s",
                    gnutls_failure);
    return NULL;
}
