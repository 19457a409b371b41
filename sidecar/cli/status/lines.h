// Lines of `status` in the width that there is.
#pragma once

#include "cli/status/status.h"

enum { LINES_INDENT = 9 }; // columns of a label

// Adds sentences, made safe for a terminal and wrapped; the first word comes to stand where it is, the other lines at `indent`.
void lines_wrap(buffer_t *out, const char *text, size_t indent, const status_view_t *view);
// Adds a label and behind it a text, wrapped.
void lines_labelled(buffer_t *out, const char *label, const char *text, const status_view_t *view);
// Adds lines that are not sentences, cut where they are too wide.
void lines_clip(buffer_t *out, const char *text, size_t width);

size_t lines_count(const buffer_t *text);
// Keeps at most `max` lines; the last one then says how many are missing.
void lines_cut(buffer_t *out, size_t max, size_t width);
