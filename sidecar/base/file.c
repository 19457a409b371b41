#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>

// Whether `path` names a descriptor of this process. A pipe there is at its end after the first read, so a reload cannot hang.
static bool file_is_inherited(const char *path) {
    static const char *const prefixes[] = {"/dev/stdin", "/dev/fd/", "/proc/self/fd/"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(path, prefixes[i], strlen(prefixes[i])) == 0) return true;
    return false;
}

static FILE *file_open(const char *path, bool or_pipe) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); // a FIFO without a writer would block the open itself
    struct stat status = {0};
    int error = fd < 0 || fstat(fd, &status) != 0 ? errno : 0;
    bool pipe = !error && or_pipe && S_ISFIFO(status.st_mode) && file_is_inherited(path);
    if (!error && !S_ISREG(status.st_mode) && !pipe) error = S_ISDIR(status.st_mode) ? EISDIR : FILE_NOT_REGULAR;
    if (pipe && fcntl(fd, F_SETFL, 0) != 0) error = errno;
    FILE *file = error ? NULL : fdopen(fd, "r");
    if (!file) {
        error = error ? error : errno;
        if (fd >= 0) close(fd);
        errno = error;
    }
    return file;
}

FILE *file_open_regular(const char *path) { return file_open(path, false); }
FILE *file_open_regular_or_stdin(const char *path) { return file_open(path, true); }

// Whether everybody may enter all directories above the file.
static bool file_is_reachable(char *path) {
    struct stat at;
    for (char *slash; (slash = strrchr(path, '/')) != NULL && slash != path;) {
        *slash = '\0';
        if (stat(path, &at) != 0 || !(at.st_mode & S_IXOTH)) return false;
    }
    return true;
}

unsigned file_rights_of_others(const char *path) {
    struct stat at;
    char *real = realpath(path, NULL);
    bool reachable = real && stat(real, &at) == 0 && file_is_reachable(real);
    free(real);
    return reachable ? at.st_mode & (S_IROTH | S_IWOTH) : 0;
}
