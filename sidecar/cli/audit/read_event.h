// An exported event, read back: what audit_row_json and audit_row_csv wrote, and nothing else.
#ifndef QS_CLI_AUDIT_READ_EVENT_H
#define QS_CLI_AUDIT_READ_EVENT_H

#include "base/buffer.h"
#include "base/slice.h"
#include "model/event.h"

typedef struct audit_reader audit_reader_t;
audit_reader_t *audit_reader_new(void); // owned
void audit_reader_free(audit_reader_t *reader);

// The kind of the last line of an export, which is no event and has no id: its size is the number of events before it.
#define AUDIT_EXPORT_END "end"

// Each reads one record into *event, which is borrowed until the next one. False: *why says what is wrong with it.
bool audit_read_json(audit_reader_t *reader, slice_t line, event_t *event, buffer_t *why);
bool audit_read_csv(audit_reader_t *reader, slice_t record, event_t *event, buffer_t *why);
// The first record of a CSV file: which column is what. They may stand in any order, and those of others are passed over.
bool audit_read_titles(audit_reader_t *reader, slice_t record, buffer_t *why);

#endif
