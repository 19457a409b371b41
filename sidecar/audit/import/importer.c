#include "audit/import/import.h"

#include <stdlib.h>

#include "audit/import/internal.h"

import_t *import_begin(audit_t *audit) {
    import_t *import = mem_alloc(sizeof *import);
    import->audit = audit;
    return import;
}

void import_free(import_t *import) {
    if (!import) return;
    import_clear_batch(import);
    gaps_free(&import->gaps);
    free(import->batch);
    free(import);
}

bool import_add(import_t *import, const event_t *event, buffer_t *why) {
    if (!slice_is(event->kind, "gap") && !slice_is(event->kind, "filled")) return import_add_to_batch(import, event, why);
    gaps_add(&import->gaps, event);
    return true;
}

bool import_finish_export(import_t *import, buffer_t *why) {
    return import_flush(import, why) && (import->gaps.count == 0 || import_finish_gaps(import, NULL, NULL, NULL, why));
}

void import_count_refused(import_t *import) { import->counts.refused++; }

const import_counts_t *import_counted(const import_t *import) { return &import->counts; }
