// Headers of the C library and POSIX that many files need. Our headers include this file; other files need not.
#pragma once

#ifdef NDEBUG
#error "build without NDEBUG: an assertion ends the process before a wrong state loses, doubles or holds a job"
#endif

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
