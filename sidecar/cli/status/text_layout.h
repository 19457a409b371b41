// Lines of `status` within the width of the terminal.
#pragma once

#include "cli/status/view.h"

enum { TEXT_INDENT = 9 }; // columns of a label

// Adds escaped and wrapped sentences. The first line continues the line in *out, at column `indent`, where the others begin.
void text_wrap(buffer_t *out, const char *text, size_t indent, const status_view_t *view);
// Adds a label and behind it a text, wrapped.
void text_labelled(buffer_t *out, const status_view_t *view, const char *label, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Adds lines that are not sentences, cut where they are too wide.
void text_clip(buffer_t *out, const char *text, size_t width);
// Keeps at most `max` lines; the last one then says how many are missing.
void text_cut(buffer_t *out, size_t max, size_t width);
