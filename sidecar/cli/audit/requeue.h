// Inside `audit requeue`, `audit discard` and `audit erase`: their arguments, and what they print.
#pragma once

#include <signal.h>

#include "cli/audit/audit.h"
#include "cli/terminal.h"
#include "operate/requeue/requeue.h"

typedef struct requeue_report {
    mono_t began;
    progress_t progress;
    buffer_t problems; // for -o json; owned
    int64_t problem_count;
} requeue_report_t;

typedef struct requeue_command {
    const audit_args_t *args; // borrowed
    requeue_t *requeue;       // owned
    char *by;                 // the operator; owned
    bool bad_refs;            // a REF names no event, or several
    requeue_report_t report;
    sigset_t signals; // that stop a run
    int signal;       // stopped the run; 0 = none
} requeue_command_t;

void report_begin(requeue_command_t *command);
// For requeue_caller_t; `self` is the command.
void report_add(void *self, const requeue_target_t *target, requeue_result_t result, const char *detail);
void report_warn(void *self, const char *text);
void report_progress(requeue_command_t *command);
// Prints the summary. `stopped` says why not all failures were tried; NULL = all were. Returns the exit code for the results.
int report_end(requeue_command_t *command, const char *stopped);
