#include "config/file/diagnostic.h"

void diagnostic_vadd(diagnostics_t *list, const location_t *location, const char *prefix, const char *format, va_list args) {
    buffer_t text = {0};
    buffer_str(&text, prefix);
    buffer_vprintf(&text, format, args);
    list->items = mem_grown(list->items, list->count, sizeof *list->items);
    list->items[list->count] =
        (diagnostic_t){.file = mem_str(location->file), .line = location->line, .ordinal = list->count, .text = text.data};
    list->count++;
}

void diagnostic_add(diagnostics_t *list, const location_t *location, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diagnostic_vadd(list, location, "", format, args);
    va_end(args);
}

static int diagnostic_file_rank(const diagnostic_t *diagnostic, const char *main_file) {
    if (!diagnostic->file) return 2;
    return main_file && strcmp(diagnostic->file, main_file) == 0 ? 0 : 1;
}

// Line 0 means the whole file and sorts last.
static unsigned diagnostic_line_rank(const diagnostic_t *diagnostic) { return (unsigned)diagnostic->line - 1u; }

static int diagnostic_compare(const void *left, const void *right, void *context) {
    const diagnostic_t *a = left, *b = right;
    const diagnostics_t *list = context;
    int order = diagnostic_file_rank(a, list->main_file) - diagnostic_file_rank(b, list->main_file);
    if (order == 0 && a->file && b->file) order = strcmp(a->file, b->file);
    if (order == 0)
        order = (diagnostic_line_rank(a) > diagnostic_line_rank(b)) - (diagnostic_line_rank(a) < diagnostic_line_rank(b));
    if (order == 0) order = (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
    return order;
}

void diagnostics_write(diagnostics_t *list, buffer_t *out) {
    if (list->count) qsort_r(list->items, list->count, sizeof *list->items, diagnostic_compare, list);
    for (size_t i = 0; i < list->count; i++) {
        const diagnostic_t *diagnostic = &list->items[i];
        if (diagnostic->file) buffer_printf(out, "%s:", diagnostic->file);
        if (diagnostic->file && diagnostic->line) buffer_printf(out, "%d:", diagnostic->line);
        buffer_printf(out, "%s%s\n", diagnostic->file ? " " : "", diagnostic->text);
    }
    diagnostics_free(list);
}

void diagnostics_free(diagnostics_t *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].file);
        free(list->items[i].text);
    }
    free(list->items);
    *list = (diagnostics_t){.main_file = list->main_file};
}
