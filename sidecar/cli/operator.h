// Shared by commands that change jobs: the name of the operator, the rate, the question whether to go on, and the stop.
#pragma once

#include <signal.h>

#include "base/std.h"

enum { OPERATOR_MAX_NOTE = 1024 }; // bytes of a reason

// Returns `by`, or if it is NULL $SUDO_USER or the user, at this host. Owned.
char *operator_name(const char *by);
bool operator_name_is_good(const char *name);
#define OPERATOR_NAME_WRONG "--by takes 1 to 128 bytes without control characters"

#define OPERATOR_RATE_WRONG "--rate takes a number from 1 to 1000000 with /s or /m, like 50/s"

// Ends the line on stderr that says what is about to happen, and asks. Returns CLI_OK, or an exit code.
int operator_confirms(void);

// Blocks the signals that stop a run: operator_wait reads them between requests, so that no reply is lost.
void operator_block_signals(sigset_t *signals);
// Waits so long, or until a signal comes. Returns the signal; 0 = none.
int operator_wait(const sigset_t *signals, int64_t ns);
