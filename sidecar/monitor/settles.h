// Settles the jobs of one page: in a few requests, each of which takes Redis about redis.slice, so that other clients get their
// turn between two of them.
#pragma once

#include "monitor/candidate.h"

// Settles the candidates whose verdict is a retry or an end. Their `job` must be filled.
outcome_t settles_page(const apply_t *apply, candidate_t *candidates, size_t count);
