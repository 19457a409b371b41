// status --watch: draws in place on a terminal, and block after block elsewhere.
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/status/status.h"

enum { SLICE_MS = 100, WIDTH = 100 };

// The alternate screen without a cursor: leaving it restores the old screen (xterm, ctlseqs: DECSET 1049, DECTCEM).
static const char ENTER[] = "\x1b[?1049h\x1b[?25l", LEAVE[] = "\x1b[?25h\x1b[?1049l";

static atomic_bool *interrupted;
static atomic_bool resized, suspended;

static void watch_on_signal(int number) {
    if (number == SIGWINCH)
        atomic_store(&resized, true);
    else if (number == SIGTSTP)
        atomic_store(&suspended, true);
    else
        atomic_store(interrupted, true);
}

static void watch_handle(int number, void (*handler)(int)) {
    const struct sigaction action = {.sa_handler = handler}; // interrupts a wait
    sigaction(number, &action, NULL);
}

static void watch_print(const char *text) {
    fputs(text, stdout);
    fflush(stdout);
}

// Ctrl-Z returns the screen to the shell, and fg takes it again.
static void watch_suspend(void) {
    watch_print(LEAVE);
    watch_handle(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    watch_handle(SIGTSTP, watch_on_signal);
    watch_print(ENTER);
    atomic_store(&suspended, false);
}

// Clears the rest of each line instead of the screen, which would flicker.
static void watch_show(const buffer_t *frame) {
    buffer_t out = {0};
    buffer_str(&out, "\x1b[H");
    for (const char *at = buffer_text(frame); *at;) {
        size_t len = strcspn(at, "\n");
        buffer_add(&out, at, len);
        buffer_str(&out, "\x1b[K");
        at += len;
        if (*at && at[1]) buffer_str(&out, "\r\n"); // on the last line of the screen it would scroll
        if (*at) at++;
    }
    buffer_str(&out, "\x1b[J");
    fwrite(out.data, 1, out.len, stdout);
    fflush(stdout);
    buffer_free(&out);
}

// False: end, because of a signal or because nobody reads the output any more.
static bool watch_wait(mono_t next, bool terminal) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    while (!atomic_load(interrupted) && !ferror(stdout)) {
        if (atomic_load(&suspended)) {
            watch_suspend();
            return true;
        }
        if (terminal && atomic_exchange(&resized, false)) return true;
        int64_t left_ms = mono_diff(next, mono_now()) / NS_PER_MS;
        if (left_ms <= 0) return true;
        poll(&out, 1, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS);
        if (out.revents & (POLLERR | POLLHUP | POLLNVAL)) return false;
    }
    return false;
}

static void watch_draw(const status_watch_t *watch, status_draw_fn *draw, void *self, buffer_t *frame) {
    struct winsize size = {.ws_col = 0};
    if (watch->in_place) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    buffer_clear(frame);
    draw(self, size.ws_col ? size.ws_col : WIDTH, size.ws_row, watch->colour, frame);
}

static void watch_handle_signals(const status_watch_t *watch) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) watch_handle(ends[i], watch_on_signal);
    if (!watch->in_place) return;
    watch_handle(SIGWINCH, watch_on_signal);
    watch_handle(SIGTSTP, watch_on_signal);
    watch_handle(SIGPIPE, SIG_IGN); // or the terminal would keep the alternate screen
}

int status_watch(const status_watch_t *watch, atomic_bool *stop, status_draw_fn *draw, void *self) {
    buffer_t frame = {0};
    interrupted = stop;
    watch_handle_signals(watch);
    if (watch->in_place) watch_print(ENTER);
    for (bool go_on = true; go_on;) {
        mono_t next = mono_add(mono_now(), watch->interval_ms * NS_PER_MS);
        watch_draw(watch, draw, self, &frame);
        if (atomic_load(stop)) break; // the last reading may be incomplete
        if (watch->in_place)
            watch_show(&frame);
        else
            watch_print(buffer_text(&frame));
        go_on = watch_wait(next, watch->in_place);
    }
    if (watch->in_place) watch_print(LEAVE);
    buffer_free(&frame);
    return CLI_OK;
}
