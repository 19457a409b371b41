#include "config/file/source.h"

#include <libconfig.h>

#include "base/file.h"
#include "config/file/hint.h"

enum { LARGEST_FILE = 4 * 1024 * 1024 };

// The text of a file, kept for its literals.
typedef struct text_file {
    char *path;
    buffer_t text;
    lexer_t lexer;
} text_file_t;

typedef struct source {
    const char *path;
    char *dir; // where included files are looked for
    text_file_t *files;
    size_t count;
    bool incomplete; // libconfig may have read a file that is not in `files`
    diagnostics_t *errors;
} source_t;

// Returns 0 or an errno.
static int source_read_file(const char *path, buffer_t *out) {
    FILE *file = file_open_regular_or_stdin(path);
    if (!file) return errno;
    char chunk[8192];
    size_t got;
    errno = 0;
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0 && out->len <= LARGEST_FILE) buffer_add(out, chunk, got);
    int error = ferror(file) ? errno : out->len > LARGEST_FILE ? EFBIG : 0;
    fclose(file);
    return error;
}

static void source_explain_unreadable(source_t *source, int error) {
    diagnostics_t *errors = source->errors;
    const char *path = source->path;
    const location_t file = {.file = path};
    const char *text = strerror(error);
    if (error == ENOENT || error == ENOTDIR)
        diagnostic_add(errors, &file, "%s: name the config with -c FILE or QUEUE_SIDECAR_CONFIG", text);
    else if (error == EISDIR)
        diagnostic_add(errors, &file, "%s: name the file in it, such as %s%squeue-sidecar.cfg", text, path,
                       *path && path[strlen(path) - 1] == '/' ? "" : "/");
    else if (error == EACCES)
        diagnostic_add(errors, &file, "%s: let user %lu read the file", text, (unsigned long)geteuid());
    else if (error == FILE_NOT_REGULAR)
        diagnostic_add(errors, &file, "not a regular file: write the config into a file");
    else if (error == EFBIG)
        diagnostic_add(errors, &file, "%s: a config may have at most 4 MiB", text);
    else
        diagnostic_add(errors, &file, "%s: cannot read the config", text);
}

// libconfig names the main file NULL, and an included one as it was written (1.5) or with its directory (1.7).
static char *source_shown_path(const source_t *source, const char *file) {
    if (!file) return mem_str(source->path);
    size_t len = strlen(source->dir);
    if (file[0] == '/' || (strncmp(file, source->dir, len) == 0 && file[len] == '/')) return mem_str(file);
    return strcmp(source->dir, ".") == 0 ? mem_str(file) : mem_printf("%s/%s", source->dir, file);
}

static text_file_t *source_add_file(source_t *source, const char *path) {
    source->files = mem_grown(source->files, source->count, sizeof *source->files);
    text_file_t *file = &source->files[source->count++];
    file->path = mem_str(path);
    return file;
}

// Returns the lexer of a file by its shown path. An unreadable file has an empty lexer.
static lexer_t *source_lexer(source_t *source, const char *path) {
    for (size_t i = 0; i < source->count; i++) {
        if (strcmp(source->files[i].path, path) == 0) return &source->files[i].lexer;
    }
    text_file_t *file = source_add_file(source, path);
    if (source_read_file(path, &file->text) != 0) buffer_clear(&file->text);
    lexer_read(buffer_text(&file->text), &file->lexer);
    return &file->lexer;
}

// Returns the literal in the file. For an element of a list, or if the file has just changed, returns libconfig's value.
static char *source_number(source_t *source, const config_setting_t *setting, const node_t *node) {
    const token_t *token = node->name ? lexer_number(source_lexer(source, node->location.file), node->name) : NULL;
    if (token) return mem_printf("%.*s", (int)token->text.len, token->text.data);
    if (node->kind == NODE_REAL) return mem_printf("%.17g", config_setting_get_float(setting));
    bool large = config_setting_type(setting) == CONFIG_TYPE_INT64;
    return mem_printf("%lld%s", config_setting_get_int64(setting), large ? "L" : "");
}

static void source_take_scalar(source_t *source, const config_setting_t *setting, node_t *node) {
    int type = config_setting_type(setting);
    if (type == CONFIG_TYPE_BOOL) {
        node->kind = NODE_BOOL;
        node->text = mem_str(config_setting_get_bool(setting) ? "true" : "false");
    } else if (type == CONFIG_TYPE_STRING) {
        node->kind = NODE_TEXT;
        const char *text = config_setting_get_string(setting);
        node->text = mem_str(text ? text : "");
    } else {
        node->kind = type == CONFIG_TYPE_FLOAT ? NODE_REAL : NODE_INT;
        node->text = source_number(source, setting, node);
    }
}

static void source_take(source_t *source, const config_setting_t *setting, node_t *node) {
    node->name = mem_str(config_setting_name(setting));
    node->location = (location_t){.file = source_shown_path(source, config_setting_source_file(setting)),
                                  .line = (int)config_setting_source_line(setting),
                                  .origin = ORIGIN_FILE};
    if (!config_setting_is_aggregate(setting)) {
        source_take_scalar(source, setting, node);
        return;
    }
    node->kind = config_setting_is_group(setting) ? NODE_GROUP : config_setting_is_list(setting) ? NODE_LIST : NODE_ARRAY;
    node->count = (size_t)config_setting_length(setting);
    node->children = mem_array(node->count, sizeof *node->children);
    for (size_t i = 0; i < node->count; i++)
        source_take(source, config_setting_get_elem(setting, (unsigned)i), &node->children[i]);
}

static void source_explain_syntax(source_t *source, const config_t *config) {
    char *file = source_shown_path(source, config_error_file(config));
    const char *text = config_error_text(config);
    int line = config_error_line(config);
    lexer_t *lexer = source_lexer(source, file);
    buffer_t hint = {0};
    if (strstr(text, "nesting")) {
        buffer_printf(&hint, "%s: libconfig follows 10 at most, and a file must not include itself", text);
    } else if (strstr(text, "include")) {
        buffer_printf(&hint, "%s (its path is relative to %s)", text, source->dir);
    } else if (strstr(text, "mismatched")) {
        buffer_printf(&hint, "%s: between [ and ] all values must have one type", text);
    } else {
        buffer_str(&hint, text);
        syntax_hint(lexer, line, &hint);
    }
    diagnostic_add(source->errors, &(location_t){.file = file, .line = line}, "%s", buffer_text(&hint));
    buffer_free(&hint);
    free(file);
}

// Reports errors that libconfig would ignore or explain less well.
static bool source_check_text(source_t *source) {
    const text_file_t *main_file = &source->files[0];
    const lexer_t *lexer = &main_file->lexer;
    const char *nul = memchr(buffer_text(&main_file->text), '\0', main_file->text.len);
    location_t location = {.file = source->path};
    buffer_t text = {0};
    if (nul) {
        buffer_printf(&text, "byte %zu is NUL: the config must be a text file", (size_t)(nul - main_file->text.data) + 1);
    } else if ((location.line = lexer->open_comment) > 0) {
        buffer_str(&text, "unclosed comment: add */");
    } else if ((location.line = lexer_open_string_line(lexer)) > 0) {
        buffer_str(&text, "unclosed string: add the closing quote");
    } else if ((location.line = lexer->nul_escape) > 0) {
        buffer_str(&text, "a text cannot hold \\x00");
    } else if ((location.line = lexer_stray_string_line(lexer)) > 0) {
        buffer_str(&text, "syntax error");
        syntax_hint(lexer, location.line, &text);
    }
    bool bad = text.len > 0;
    if (bad) diagnostic_add(source->errors, &location, "%s", buffer_text(&text));
    buffer_free(&text);
    return bad;
}

// Reports an included file that is not regular: libconfig opens such a file itself, and a FIFO would block it.
static bool source_check_includes(source_t *source) {
    for (size_t i = 0; i < source->count; i++) { // source_lexer adds the files that these files include
        for (size_t k = 0; k + 1 < source->files[i].lexer.count; k++) {
            const token_t *token = &source->files[i].lexer.tokens[k];
            if (!slice_is(token[0].text, "include") || token[1].kind != TOKEN_STRING || token[1].text.len < 2) continue;
            char *name = mem_printf("%.*s", (int)token[1].text.len - 2, token[1].text.data + 1);
            char *path = source_shown_path(source, name);
            FILE *file = file_open_regular(path);
            bool bad = !file && errno == FILE_NOT_REGULAR;
            location_t location = {.file = source->files[i].path, .line = token->line};
            if (bad) diagnostic_add(source->errors, &location, "included file %s is not a regular file", path);
            if (!file) source->incomplete = true;
            if (file) fclose(file);
            if (file) source_lexer(source, path);
            free(path);
            free(name);
            if (bad) return true;
        }
    }
    return false;
}

static node_t *source_parse(source_t *source) {
    if (source_check_text(source) || source_check_includes(source)) return NULL;
    config_t config;
    config_init(&config);
    config_set_include_dir(&config, source->dir);
    node_t *root = NULL;
    if (config_read_string(&config, buffer_text(&source->files[0].text)) == CONFIG_TRUE) {
        root = mem_alloc(sizeof *root);
        source_take(source, config_root_setting(&config), root);
    } else {
        source_explain_syntax(source, &config);
    }
    config_destroy(&config);
    return root;
}

static char *source_directory(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return mem_str(".");
    return slash == path ? mem_str("/") : mem_printf("%.*s", (int)(slash - path), path);
}

node_t *config_source_read(const char *path, diagnostics_t *errors, config_files_t *files) {
    source_t source = {.path = path, .dir = source_directory(path), .errors = errors};
    text_file_t *file = source_add_file(&source, path);
    node_t *root = NULL;
    int error = source_read_file(path, &file->text);
    if (error) {
        source_explain_unreadable(&source, error);
    } else {
        lexer_read(buffer_text(&file->text), &file->lexer);
        root = source_parse(&source);
    }
    for (size_t i = 0; i < source.count; i++) {
        config_files_add(files, source.files[i].path, source.files[i].text.data, source.files[i].text.len);
        lexer_free(&source.files[i].lexer);
        buffer_free(&source.files[i].text);
        free(source.files[i].path);
    }
    if (source.incomplete) config_files_clear(files); // then each comparison tells a change
    free(source.files);
    free(source.dir);
    return root;
}

static void source_clear(node_t *node) {
    for (size_t i = 0; i < node->count; i++) source_clear(&node->children[i]);
    free(node->children);
    free(node->name);
    free(node->text);
    free((void *)node->location.file);
}

void config_source_free(node_t *root) {
    if (!root) return;
    source_clear(root);
    free(root);
}

const node_t *config_source_child(const node_t *group, const char *name) {
    for (size_t i = 0; i < group->count; i++) {
        if (group->children[i].name && strcmp(group->children[i].name, name) == 0) return &group->children[i];
    }
    return NULL;
}
