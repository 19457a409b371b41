// A table for people, with columns as wide as what stands in them, that fits the terminal.
#ifndef QS_CLI_TABLE_H
#define QS_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/slice.h"

enum { TABLE_COLUMNS = 10 };

typedef struct table_column {
    const char *title;    // borrowed
    size_t min_width;     // columns of the terminal that it keeps when room is short; 0 = all that it wants
    size_t max_width;     // 0 = no limit
    bool align_right;     // numbers
    size_t initial_width; // columns that it takes even if what stands in it is shorter: of a table that is flushed
} table_column_t;

typedef struct table table_t;

// Columns are borrowed. Owned; free with table_end, which prints what is left. Nothing is printed of a table without rows.
table_t *table_begin(const table_column_t *columns, size_t count, FILE *out);
// Of a table that is printed elsewhere than it is shown: how many columns there are. Before the first flush.
void table_set_columns(table_t *table, size_t columns);
// The next cell, row by row from the left; any bytes.
void table_cell(table_t *table, slice_t bytes);
// Prints what is there. The first time fixes the widths.
void table_flush(table_t *table);
void table_end(table_t *table);

#endif
