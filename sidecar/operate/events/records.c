#include "operate/events/records.h"

#include "base/json/json.h"
#include "base/text/base64.h"
#include "base/text/time_text.h"

static const void *field_value(const field_t *field, const void *row) { return (const char *)row + field->offset; }

static void field_add_text(buffer_t *out, const field_t *field, const void *row) {
    const void *value = field_value(field, row);
    switch (field->kind) {
    case FIELD_BYTES:
        if (!*(const bool *)field_value(field + 1, row)) {
            base64_encode(out, *(const slice_t *)value);
            break;
        } // fall through
    case FIELD_TEXT: buffer_add(out, ((const slice_t *)value)->data, ((const slice_t *)value)->len); break;
    case FIELD_ENCODING: buffer_str(out, *(const bool *)value ? "text" : "base64"); break;
    case FIELD_NUMBER: buffer_printf(out, "%" PRId64, *(const int64_t *)value); break;
    case FIELD_POSITIVE:
        if (*(const int64_t *)value) buffer_printf(out, "%" PRId64, *(const int64_t *)value);
        break;
    case FIELD_COUNT:
        if (*(const int64_t *)value >= 0) buffer_printf(out, "%" PRId64, *(const int64_t *)value);
        break;
    case FIELD_TIME:
        if (*(const int64_t *)value && *(const int64_t *)value != INT64_MAX)
            buffer_str(out, time_rfc3339(*(const int64_t *)value).text);
        break;
    case FIELD_FLAG: buffer_str(out, *(const bool *)value ? "true" : "false"); break;
    }
}

// RFC 4180: a quote inside quotes is doubled. `guard`: a ' before what would be a formula if a cell began there (OWASP, CSV
// injection). A spreadsheet whose separator is the semicolon begins a cell behind each one: our quotes do not count there.
static void csv_write_field(buffer_t *out, const buffer_t *text, bool guard) {
    static const char separators[] = {';', '|', '\t', '\r', '\n'}, formulas[] = {'=', '+', '-', '@'};
    bool quoted = false, begins = guard;
    for (size_t i = 0; i < text->len && !quoted; i++)
        quoted = text->data[i] == '"' || text->data[i] == ',' || memchr(separators, text->data[i], sizeof separators);
    if (quoted) buffer_str(out, "\"");
    for (size_t i = 0; i < text->len; i++) {
        char byte = text->data[i];
        if (begins && memchr(formulas, byte, sizeof formulas)) buffer_str(out, "'");
        if (guard && byte != ' ' && byte != '"') begins = memchr(separators, byte, sizeof separators) != NULL;
        if (byte == '"') buffer_str(out, "\"");
        buffer_add(out, &byte, 1);
    }
    if (quoted) buffer_str(out, "\"");
}

static void json_write_field(buffer_t *out, const field_t *field, const buffer_t *text) {
    buffer_printf(out, "\"%s\":", field->name);
    bool number = field->kind == FIELD_NUMBER || field->kind == FIELD_POSITIVE || field->kind == FIELD_COUNT;
    if (text->len == 0 && (number || field->kind == FIELD_TIME))
        buffer_str(out, "null");
    else if (number || field->kind == FIELD_FLAG)
        buffer_str(out, buffer_text(text));
    else
        json_write_string(out, (slice_t){buffer_text(text), text->len});
}

void record_write_json(buffer_t *out, const field_t *fields, size_t count, const void *row) {
    buffer_t text = {0};
    for (size_t i = 0; i < count; i++) {
        buffer_clear(&text);
        field_add_text(&text, &fields[i], row);
        buffer_str(out, i ? "," : "{");
        json_write_field(out, &fields[i], &text);
    }
    buffer_str(out, "}");
    buffer_free(&text);
}

static void record_write_csv(records_t *records, const void *row) {
    buffer_t text = {0};
    for (size_t i = 0; i < records->field_count; i++) {
        const field_t *field = &records->fields[i];
        buffer_clear(&text);
        field_add_text(&text, field, row);
        bool is_text = field->kind == FIELD_TEXT || field->kind == FIELD_BYTES;
        if (i) buffer_str(&records->text, ",");
        csv_write_field(&records->text, &text, !records->raw && is_text);
    }
    buffer_str(&records->text, "\r\n");
    buffer_free(&text);
}

void records_begin(records_t *records, audit_format_t format, const field_t *fields, size_t count) {
    *records = (records_t){.format = format, .fields = fields, .field_count = count, .raw = records->raw};
    if (format != FORMAT_CSV) return;
    for (size_t i = 0; i < count; i++) buffer_printf(&records->text, "%s%s", i ? "," : "", fields[i].name);
    buffer_str(&records->text, "\r\n");
}

void records_add(records_t *records, const void *row) {
    buffer_t *out = &records->text;
    if (records->format == FORMAT_JSON_ARRAY) buffer_str(out, records->count ? ",\n " : "[\n ");
    if (records->format == FORMAT_CSV)
        record_write_csv(records, row);
    else
        record_write_json(out, records->fields, records->field_count, row);
    if (records->format == FORMAT_JSON_LINES) buffer_str(out, "\n");
    records->count++;
}

void records_end(records_t *records) {
    if (records->format == FORMAT_JSON_ARRAY) buffer_str(&records->text, records->count ? "\n]\n" : "[]\n");
}
