#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>

FILE *file_open_regular(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); // a FIFO without a writer would block the open itself
    struct stat status;
    int error = fd < 0 || fstat(fd, &status) != 0 ? errno : 0;
    if (!error && !S_ISREG(status.st_mode)) error = S_ISDIR(status.st_mode) ? EISDIR : FILE_NOT_REGULAR;
    FILE *file = error ? NULL : fdopen(fd, "r");
    if (!file) {
        error = error ? error : errno;
        if (fd >= 0) close(fd);
        errno = error;
    }
    return file;
}
