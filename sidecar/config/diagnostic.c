#include "config/diagnostic.h"

#include <stdlib.h>
#include <string.h>

void config_fault_add(fault_list_t *list, const char *file, int line, const char *format, ...) {
    buffer_t text = {0};
    va_list args;
    va_start(args, format);
    buffer_vprintf(&text, format, args);
    va_end(args);
    list->items = mem_grown(list->items, list->count, sizeof *list->items);
    fault_t *fault = &list->items[list->count++];
    fault->file = file ? mem_str(file) : NULL;
    fault->line = line;
    fault->ordinal = list->count;
    fault->text = mem_str(buffer_text(&text));
    buffer_free(&text);
}

static int file_rank(const fault_t *fault, const char *main_file) {
    if (!fault->file) return 2;
    return main_file && strcmp(fault->file, main_file) == 0 ? 0 : 1;
}

// Lines count from 1; a fault of the whole file comes after those with a line.
static unsigned line_rank(const fault_t *fault) { return (unsigned)fault->line - 1u; }

static int compare(const void *left, const void *right, void *context) {
    const fault_t *a = left, *b = right;
    const fault_list_t *list = context;
    int order = file_rank(a, list->main_file) - file_rank(b, list->main_file);
    if (order == 0 && a->file && b->file) order = strcmp(a->file, b->file);
    if (order == 0) order = (line_rank(a) > line_rank(b)) - (line_rank(a) < line_rank(b));
    if (order == 0) order = (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
    return order;
}

void config_fault_write(fault_list_t *list, buffer_t *out) {
    if (list->count) qsort_r(list->items, list->count, sizeof *list->items, compare, list);
    for (size_t i = 0; i < list->count; i++) {
        const fault_t *fault = &list->items[i];
        if (fault->file) buffer_printf(out, "%s:", fault->file);
        if (fault->file && fault->line) buffer_printf(out, "%d:", fault->line);
        buffer_printf(out, "%s%s\n", fault->file ? " " : "", fault->text);
    }
    config_fault_drop(list);
}

void config_fault_drop(fault_list_t *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].file);
        free(list->items[i].text);
    }
    free(list->items);
    *list = (fault_list_t){.main_file = list->main_file};
}
