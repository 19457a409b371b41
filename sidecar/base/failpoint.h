// Named points at which a test makes the process die as by kill -9: QS_CRASH_AT=<name> in the environment, or <name>:<n> for the
// n-th time that the point is reached. Only build/tests/queue-sidecar and the suite read the variable.
#pragma once

// Ends the process if QS_CRASH_AT names this point, with 137, the exit code that a shell reports after kill -9.
void failpoint(const char *name);
