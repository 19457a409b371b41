// Judges the jobs of one page and carries out the verdicts.
#pragma once

#include "monitor/candidate.h"

apply_buffers_t *apply_buffers_new(void); // owned
void apply_buffers_free(apply_buffers_t *buffers);

// Judges each job of the page, without I/O. Returns how many verdicts must be carried out.
size_t apply_classify(const apply_t *apply, const backup_page_t *page, const stamp_t *stamps, const stamp_raw_t *raws);

// Carries out the verdicts of the last apply_classify; fenced. Call it only when no reply is outstanding.
outcome_t apply_verdicts(const apply_t *apply, size_t count);
