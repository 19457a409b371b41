// The locks that other instances release, as the leaders of all shards of a process tell each other.
//
// In a Cluster each node passes a message of a channel on to all others (redis src/cluster.c, clusterPropagatePublish). So one of
// the leaders is the listener: it subscribes, and tells the others. Thread-safe.
#pragma once

#include "base/slice.h"

typedef struct vacancies vacancies_t;

vacancies_t *vacancies_new(void);            // owned
void vacancies_free(vacancies_t *vacancies); // NULL is fine

// `leader` becomes the listener if there is none. Returns whether it is the listener.
bool vacancies_begin(vacancies_t *vacancies, const void *leader);
bool vacancies_may_listen(vacancies_t *vacancies, const void *leader); // whether it is, or there is none
bool vacancies_end(vacancies_t *vacancies, const void *leader);        // returns whether it was the listener

// A lock was released. NULL: any lock may have been.
void vacancies_tell(vacancies_t *vacancies, const slice_t *lock);

// Calls `vacant` for each lock that was named since the last call. *heard belongs to the caller and begins with 0. False: any
// lock may have been released.
typedef void vacancy_fn(void *self, slice_t lock);
bool vacancies_hear(vacancies_t *vacancies, uint64_t *heard, vacancy_fn *vacant, void *self);
