// Named points at which a test lets the process die as by kill -9: QS_CRASH_AT=<name> in the environment, or <name>:<n> for the
// n-th time that the point is reached. For tests only; without the variable a point costs one look.
#ifndef QS_BASE_FAILPOINT_H
#define QS_BASE_FAILPOINT_H

// Ends the process with 137, which is what a shell shows after kill -9, when this is the point that is named.
void failpoint(const char *name);

#endif
