// Writes manual pages in the macros of man(7), which groff and mandoc read.
#ifndef QS_CLI_ROFF_H
#define QS_CLI_ROFF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

// The head of a page. `title` in capitals.
void roff_begin(buffer_t *out, const char *title, const char *section);

void roff_section(buffer_t *out, const char *title);
void roff_subsection(buffer_t *out, const char *title);

// Paragraphs, as in cli_command_t: `WORD` becomes bold, an empty line between them. The first follows a heading or a tag.
void roff_text(buffer_t *out, const char *text);

// The text that follows stands indented under `text`, which is marked up likewise.
void roff_tag(buffer_t *out, const char *text);

// Begins another paragraph where text follows text.
void roff_paragraph(buffer_t *out);

// No empty lines between paragraphs, until it is called again.
void roff_close(buffer_t *out, bool close);

// Lines that stay as they are, indented.
void roff_example(buffer_t *out, const char *lines);

// A line of usage, behind the name of the program: words in capitals are to be replaced, the others typed.
void roff_usage(buffer_t *out, const char *line, size_t len);

// A tag of one option: -x, --name ARGUMENT. `short_name` may be 0; name or argument may be NULL.
void roff_option(buffer_t *out, char short_name, const char *name, const char *argument);

#endif
