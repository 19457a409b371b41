// Groups of failures as rows, and the words that name what the failures of a group have in common.
#pragma once

#include "audit/query/groups.h"
#include "operate/events/records.h"

enum { GROUP_FIELDS = 7 };
const field_t *group_fields(audit_by_t by); // GROUP_FIELDS fields of an audit_count_t; the first is that of the group

// Reads one of AUDIT_BY_WORDS. False: it is none.
bool group_read_by(const char *word, audit_by_t *by);
