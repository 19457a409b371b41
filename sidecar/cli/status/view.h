// What `queue-sidecar status` prints for people, and its exit code.
#pragma once

#include "cli/command.h"
#include "operate/status/status.h"

// The layout of a printed status.
typedef struct status_view {
    const bool *wanted; // as for status_diagnose
    size_t width;       // columns
    bool piped;         // standard output is no terminal
    size_t rows;        // most lines: those of the screen of --watch; 0 = any number
    bool colour;
    bool utc;
} status_view_t;
void status_text(const status_t *status, const status_findings_t *findings, const status_view_t *view, buffer_t *out);

int status_exit(const status_t *status, const status_findings_t *findings); // a code of cli_exit_t
