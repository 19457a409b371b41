// A table for people: columns as wide as their text, squeezed to fit the terminal.
#pragma once

#include "base/buffer.h"
#include "base/slice.h"

enum { TABLE_COLUMNS = 10 };

typedef struct table_column {
    const char *title;    // borrowed
    size_t min_width;     // if the table is too wide for the terminal; 0 = keep the full width
    size_t max_width;     // 0 = no limit
    size_t initial_width; // lower limit of the width, for a table that is flushed before all rows are known
    bool align_right;
} table_column_t;

typedef struct table table_t;

// Owned; free with table_end, which prints what is left. A table without rows prints nothing. Columns are borrowed.
// `max_columns` is the width of the terminal; 0 = any.
table_t *table_begin(const table_column_t *columns, size_t count, size_t max_columns, FILE *out);
// Adds the next cell, from left to right, row by row. Escapes unsafe bytes.
void table_cell(table_t *table, slice_t bytes);
// Prints the rows so far. The first call fixes the widths.
void table_flush(table_t *table);
void table_end(table_t *table);
