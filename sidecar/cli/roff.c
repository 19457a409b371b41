#include "cli/roff.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { LINE_MOST = 60 }; // columns of the source, which escapes make longer

// One letter of text. A plain - may become a hyphen and be broken, which nobody can paste: what is typed has \-. A dot or a quote
// at the beginning of a line would be a macro.
static void letter(buffer_t *out, char byte, bool typed) {
    bool begins = out->len == 0 || out->data[out->len - 1] == '\n';
    switch (byte) {
    case '\\': buffer_str(out, "\\e"); break;
    case '-': buffer_str(out, typed ? "\\-" : "-"); break;
    case '\'': buffer_str(out, typed ? "\\(aq" : begins ? "\\&'" : "'"); break;
    case '"': buffer_str(out, "\\(dq"); break;
    case '~': buffer_str(out, "\\(ti"); break;
    case '^': buffer_str(out, "\\(ha"); break;
    case '.': buffer_str(out, begins ? "\\&." : "."); break;
    default: buffer_add(out, &byte, 1);
    }
}

static void words(buffer_t *out, const char *text, size_t len, bool typed) {
    for (size_t i = 0; i < len; i++) letter(out, text[i], typed);
}

// Whether a word that begins here is an option: -o, --since.
static bool is_option(const char *text, size_t at) {
    if (text[at] != '-' || (at > 0 && !strchr(" (\n", text[at - 1]))) return false;
    return text[at + 1] == '-' || isalpha((unsigned char)text[at + 1]);
}

// Whether the line that is being written is long enough, so that the next word begins another: roff fills lines by itself.
static bool is_long(const buffer_t *out, const char *word) {
    size_t used = 0, next = strcspn(word, " \n");
    while (used < out->len && out->data[out->len - 1 - used] != '\n') used++;
    return used + 1 + next > LINE_MOST;
}

// A sentence does not end with a line of the source: two spaces would follow it.
static void marked(buffer_t *out, const char *text, size_t len, bool folds) {
    bool quoted = false, option = false;
    for (size_t i = 0; i < len; i++) {
        if (folds && text[i] == ' ' && !strchr(".!?", text[i - 1]) && is_long(out, text + i + 1)) {
            option = false;
            buffer_str(out, "\n");
            continue;
        }
        if (text[i] == '`') {
            quoted = !quoted;
            buffer_str(out, quoted ? "\\fB" : "\\fR");
            continue;
        }
        if (is_option(text, i)) option = true;
        if (!isalnum((unsigned char)text[i]) && text[i] != '-') option = false;
        if (text[i] == '\n')
            buffer_str(out, "\n.br\n");
        else
            letter(out, text[i], quoted || option);
    }
}

void roff_begin(buffer_t *out, const char *title, const char *section) {
    buffer_printf(out, ".\\\" Made by `queue-sidecar help man %s`: change the program.\n", section);
    buffer_printf(out, ".TH %s %s %s \"queue\\-sidecar %s\" \"queue\\-sidecar\"\n", title, section, QS_RELEASED, QS_VERSION);
    // Texts are ragged at the right and not hyphenated: names must stay whole to be searched and pasted.
    buffer_str(out, ".nh\n.ad l\n");
}

void roff_section(buffer_t *out, const char *title) {
    buffer_str(out, ".SH ");
    words(out, title, strlen(title), false);
    buffer_str(out, "\n");
}

void roff_subsection(buffer_t *out, const char *title) {
    buffer_str(out, ".SS ");
    words(out, title, strlen(title), true);
    buffer_str(out, "\n");
}

void roff_paragraph(buffer_t *out) { buffer_str(out, ".PP\n"); }

void roff_close(buffer_t *out, bool close) { buffer_str(out, close ? ".PD 0\n" : ".PD\n"); }

void roff_text(buffer_t *out, const char *text) {
    for (bool first = true; *text; first = false) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (!first) roff_paragraph(out);
        marked(out, text, len, true);
        buffer_str(out, "\n");
        text += len + (end ? 2 : 0);
    }
}

void roff_tag(buffer_t *out, const char *text) {
    buffer_str(out, ".TP\n");
    marked(out, text, strlen(text), false);
    buffer_str(out, "\n");
}

void roff_example(buffer_t *out, const char *lines) {
    buffer_str(out, ".RS 4\n.EX\n");
    words(out, lines, strlen(lines), true);
    if (*lines && lines[strlen(lines) - 1] != '\n') buffer_str(out, "\n");
    buffer_str(out, ".EE\n.RE\n");
}

// A word in capitals is a place to be filled.
static bool is_place(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!isupper((unsigned char)text[i])) return false;
    return len > 0;
}

void roff_usage(buffer_t *out, const char *line, size_t len) {
    size_t depth = 0;
    buffer_str(out, ".HP 4\n\\fBqueue\\-sidecar\\fR ");
    for (size_t i = 0; i < len;) {
        size_t word = 0;
        while (i + word < len && (isalnum((unsigned char)line[i + word]) || line[i + word] == '-')) word++;
        if (word == 0) {
            if (line[i] == '[') depth++;
            if (line[i] == ']' && depth > 0) depth--;
            if (line[i] == ' ' && depth > 0)
                buffer_str(out, "\\ "); // what stands in brackets is not torn apart
            else
                letter(out, line[i], true);
            i++;
            continue;
        }
        buffer_str(out, is_place(line + i, word) ? "\\fI" : "\\fB");
        words(out, line + i, word, true);
        buffer_str(out, "\\fR");
        i += word;
    }
    buffer_str(out, "\n");
}

void roff_option(buffer_t *out, char short_name, const char *name, const char *argument) {
    buffer_str(out, ".TP\n");
    if (short_name) buffer_printf(out, "\\fB\\-%c\\fR, ", short_name);
    if (name) {
        buffer_str(out, "\\fB\\-\\-");
        words(out, name, strlen(name), true);
        buffer_str(out, argument ? "\\fR " : "\\fR");
    }
    if (argument) {
        buffer_str(out, "\\fI");
        words(out, argument, strlen(argument), true);
        buffer_str(out, "\\fR");
    }
    buffer_str(out, "\n");
}
