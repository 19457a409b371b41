#include "cli/table.h"

#include "cli/terminal.h"

enum {
    GAP = 2,
    CHUNK_ROWS = 1000, // rows in memory; the first chunk fixes the widths of the whole table
    MAX_CELL_BYTES = 4096,
};

struct table {
    FILE *out;
    const table_column_t *columns;
    size_t count;
    buffer_t text;                           // of all cells of the chunk
    size_t ends[CHUNK_ROWS * TABLE_COLUMNS]; // where each cell ends in `text`
    size_t cells;                            // in the chunk
    size_t widths[TABLE_COLUMNS];
    size_t padding;     // spaces that are not printed yet
    size_t max_columns; // of the terminal; 0 = any
    bool started;       // the titles are printed
};

table_t *table_begin(const table_column_t *columns, size_t count, size_t max_columns, FILE *out) {
    table_t *table = mem_alloc(sizeof *table);
    table->columns = columns;
    table->count = count;
    table->out = out;
    table->max_columns = max_columns;
    for (size_t i = 0; i < count; i++) {
        size_t title = terminal_width(slice_text(columns[i].title));
        table->widths[i] = title > columns[i].initial_width ? title : columns[i].initial_width;
    }
    return table;
}

// Makes the widest columns narrower, down to their min_width, until the table fits.
static void table_squeeze(table_t *table) {
    size_t wanted = 0;
    for (size_t i = 0; i < table->count; i++) wanted += table->widths[i] + (i ? GAP : 0);
    for (; table->max_columns && wanted > table->max_columns; wanted--) {
        size_t widest = table->count;
        for (size_t i = 0; i < table->count; i++) {
            size_t min = table->columns[i].min_width;
            if (min == 0 || table->widths[i] <= min) continue;
            if (widest == table->count || table->widths[i] >= table->widths[widest]) widest = i;
        }
        if (widest == table->count) return;
        table->widths[widest]--;
    }
}

// Prints spaces behind a cell only before another text, so that no line ends in spaces.
static void table_print_cell(table_t *table, size_t at, slice_t text) {
    size_t width = table->widths[at], used = terminal_width(text), fits = text.len;
    bool cut = used > width;
    if (cut) {
        fits = terminal_fit(text, width - 1);
        used = terminal_width((slice_t){text.data, fits}) + 1;
    }
    if (table->columns[at].align_right) table->padding += width - used;
    if (used > 0) {
        fprintf(table->out, "%*s%.*s%s", (int)table->padding, "", (int)fits, text.data, cut ? "…" : "");
        table->padding = 0;
    }
    if (!table->columns[at].align_right) table->padding += width - used;
    table->padding += GAP;
    if (at + 1 < table->count) return;
    putc('\n', table->out);
    table->padding = 0;
}

void table_flush(table_t *table) {
    if (!table->started && table->cells > 0) {
        table_squeeze(table);
        for (size_t i = 0; i < table->count; i++) table_print_cell(table, i, slice_text(table->columns[i].title));
        table->started = true;
    }
    for (size_t i = 0, column = 0, from = 0; i < table->cells; from = table->ends[i++]) {
        table_print_cell(table, column, (slice_t){buffer_text(&table->text) + from, table->ends[i] - from});
        column = column + 1 < table->count ? column + 1 : 0;
    }
    buffer_clear(&table->text);
    table->cells = 0;
}

void table_cell(table_t *table, slice_t bytes) {
    size_t at = table->cells % table->count, from = table->text.len, most = table->columns[at].max_width;
    if (bytes.len > MAX_CELL_BYTES) bytes.len = MAX_CELL_BYTES;
    terminal_escape(&table->text, bytes, false);
    slice_t text = {buffer_text(&table->text) + from, table->text.len - from};
    size_t width = terminal_width(text);
    if (most && width > most) width = most;
    if (!table->started && width > table->widths[at]) table->widths[at] = width;
    table->ends[table->cells++] = table->text.len;
    if (table->cells == CHUNK_ROWS * table->count) table_flush(table);
}

void table_end(table_t *table) {
    table_flush(table);
    buffer_free(&table->text);
    free(table);
}
