#include "base/failpoint.h"

// Does nothing: the program that is shipped must not end because of a variable. tests/support/failpoint.c replaces it.
__attribute__((weak)) void failpoint(const char *name) { (void)name; }
