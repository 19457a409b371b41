// The survey of dialects whose keys have any name, and exist only while there are jobs.
#pragma once

#include "dialects/dialect.h"

// dialect_ops_t.survey: names a key that looks like a queue of which no key exists, and a key that seems to be another system's.
outcome_t names_survey(const call_t *call, survey_report_fn *report, void *self);
