// Shares the locks out among the instances: an instance that leads more than its part gives one lock away per TTL.
#pragma once

#include <stdatomic.h>

#include "base/std.h"

// State that the leaders of all shards of a process share. Begin with {.locks = the number of locks, .part = that number}.
typedef struct lock_spread {
    size_t locks;            // of the configuration
    atomic_size_t leading;   // by this instance
    atomic_size_t part;      // of this instance: the number of locks by the number of instances, rounded up
    _Atomic int64_t next_ns; // when to look next (a mono_t)
} lock_spread_t;
