// Draws again and again: in place on a terminal, block after block elsewhere.
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

// The alternate screen, without a cursor, so that what was there before comes back (xterm, ctlseqs: DECSET 1049, DECTCEM).
static const char ENTER[] = "\x1b[?1049h\x1b[?25l", LEAVE[] = "\x1b[?25h\x1b[?1049l";

static atomic_bool *interrupted;
static atomic_bool resized, suspended;

static void on_signal(int number) {
    if (number == SIGWINCH)
        atomic_store(&resized, true);
    else if (number == SIGTSTP)
        atomic_store(&suspended, true);
    else
        atomic_store(interrupted, true);
}

static void handle(int number, void (*handler)(int)) {
    const struct sigaction action = {.sa_handler = handler}; // interrupts a wait
    sigaction(number, &action, NULL);
}

static void put(const char *text) {
    fputs(text, stdout);
    fflush(stdout);
}

// Ctrl-Z: the shell gets its screen back, and we ours when we go on.
static void suspend(void) {
    put(LEAVE);
    handle(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    handle(SIGTSTP, on_signal);
    put(ENTER);
    atomic_store(&suspended, false);
}

// Each line with the rest of it cleared: nothing flickers, and nothing of the last frame stays.
static void show(const buffer_t *frame) {
    buffer_t out = {0};
    buffer_str(&out, "\x1b[H");
    for (const char *at = buffer_text(frame); *at;) {
        size_t len = strcspn(at, "\n");
        buffer_add(&out, at, len);
        buffer_str(&out, "\x1b[K");
        at += len;
        if (*at && at[1]) buffer_str(&out, "\r\n"); // behind the last line of the screen it would scroll
        if (*at) at++;
    }
    buffer_str(&out, "\x1b[J");
    fwrite(out.data, 1, out.len, stdout);
    fflush(stdout);
    buffer_free(&out);
}

// False: it is over, as it was interrupted or nobody reads any more.
static bool wait_until(mono_t next, bool terminal) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    while (!atomic_load(interrupted) && !ferror(stdout)) {
        if (atomic_load(&suspended)) {
            suspend();
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

static void frame_of(const status_watch_t *watch, status_draw_fn *draw, void *self, buffer_t *frame) {
    struct winsize size = {.ws_col = 0};
    if (watch->in_place) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    buffer_clear(frame);
    draw(self, size.ws_col ? size.ws_col : WIDTH, size.ws_row, watch->colour, frame);
}

static void hear_signals(const status_watch_t *watch) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) handle(ends[i], on_signal);
    if (!watch->in_place) return;
    handle(SIGWINCH, on_signal);
    handle(SIGTSTP, on_signal);
    handle(SIGPIPE, SIG_IGN); // the screen must be left
}

int status_watch(const status_watch_t *watch, atomic_bool *stop, status_draw_fn *draw, void *self) {
    buffer_t frame = {0};
    interrupted = stop;
    hear_signals(watch);
    if (watch->in_place) put(ENTER);
    for (bool go_on = true; go_on;) {
        mono_t next = mono_add(mono_now(), watch->interval_ms * NS_PER_MS);
        frame_of(watch, draw, self, &frame);
        if (atomic_load(stop)) break; // what was read meanwhile may be cut short
        if (watch->in_place)
            show(&frame);
        else
            put(buffer_text(&frame));
        go_on = wait_until(next, watch->in_place);
    }
    if (watch->in_place) put(LEAVE);
    buffer_free(&frame);
    return CLI_OK;
}
