#include "terminal.h"
#include "kept.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct terminal {
    int fd;    /* master side, which reads */
    int other; /* slave side, kept open so that written bytes are not lost */
    char path[64];
    char *text;
    size_t len;
    int columns, rows;
};

terminal_t *terminal_open(int columns, int rows) {
    terminal_t *terminal = calloc(1, sizeof(*terminal));
    if (!terminal) abort();
    terminal->fd = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    cr_assert_geq(terminal->fd, 0);
    cr_assert(grantpt(terminal->fd) == 0 && unlockpt(terminal->fd) == 0);
    cr_assert_eq(ptsname_r(terminal->fd, terminal->path, sizeof(terminal->path)), 0);
    terminal->other = open(terminal->path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    cr_assert_geq(terminal->other, 0);
    terminal->text = calloc(1, 1);
    terminal_resize(terminal, columns, rows);
    return terminal;
}

void terminal_free(terminal_t *terminal) {
    close(terminal->fd);
    close(terminal->other);
    free(terminal->text);
    free(terminal);
}

const char *terminal_path(const terminal_t *terminal) { return terminal->path; }

void terminal_resize(terminal_t *terminal, int columns, int rows) {
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
    cr_assert_eq(ioctl(terminal->fd, TIOCSWINSZ, &size), 0);
    terminal->columns = columns;
    terminal->rows = rows;
}

const char *terminal_raw(terminal_t *terminal) {
    char chunk[4096];
    for (ssize_t got; (got = read(terminal->fd, chunk, sizeof(chunk))) > 0;) {
        terminal->text = realloc(terminal->text, terminal->len + (size_t)got + 1);
        if (!terminal->text) abort();
        memcpy(terminal->text + terminal->len, chunk, (size_t)got);
        terminal->len += (size_t)got;
        terminal->text[terminal->len] = '\0';
    }
    return terminal->text;
}

/* Returns the place behind an escape sequence of the kind ESC [ ... letter. */
static const char *past_escape(const char *at) {
    at += 2;
    while (*at && strchr("0123456789;?", *at)) at++;
    return *at ? at + 1 : at;
}

char *terminal_screen(terminal_t *terminal) {
    const char *last = terminal_raw(terminal), *home = last;
    while ((home = strstr(home, "\x1b[H"))) last = home++;
    char *out = calloc(1, strlen(last) + 1);
    size_t len = 0;
    int column = 0, rows = 1;
    for (const char *at = last; *at;) {
        if (strncmp(at, "\x1b[", 2) == 0) {
            at = past_escape(at);
            continue;
        }
        if (*at == '\n') {
            rows++;
            column = 0;
        } else if (*at != '\r' && ((unsigned char)*at & 0xc0) != 0x80) {
            column++;
        }
        cr_assert_leq(column, terminal->columns, "a line is too wide: %s", last);
        if (*at != '\r') out[len++] = *at;
        at++;
    }
    cr_assert_leq(rows, terminal->rows, "there are too many lines: %s", last);
    return kept(out);
}
