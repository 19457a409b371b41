#include "http/mhd.h"

#include <dlfcn.h>

static const char LIBRARY[] = "libmicrohttpd.so.12";

#define X(name) __typeof__(MHD_##name) *mhd_##name;
MHD_FUNCTIONS(X)
#undef X

bool mhd_load(char *why, size_t size) {
    if (mhd_run) return true;
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL); // never closed
    bool found = library != NULL;
#define X(name) found = found && (*(void **)&mhd_##name = dlsym(library, "MHD_" #name)) != NULL;
    MHD_FUNCTIONS(X)
#undef X
    if (!found) snprintf(why, size, "%s", dlerror());
    return found;
}
