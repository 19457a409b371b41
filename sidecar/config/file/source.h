// A config file as a tree of names and literal texts. Only source.c uses libconfig.
#pragma once

#include "config/file/diagnostic.h"
#include "config/file/files.h"

typedef enum node_kind {
    NODE_GROUP,
    NODE_LIST,
    NODE_ARRAY,
    NODE_TEXT,
    NODE_INT,
    NODE_REAL,
    NODE_BOOL,
    NODE_ANY // text of an environment variable, whose type is not known
} node_kind_t;

typedef struct node {
    node_kind_t kind;
    char *name;            // NULL in a list or an array, and at the root
    char *text;            // value of a scalar; for an integer, the literal in the file
    location_t location;   // location of the name, or of the value in a list; location.file is owned
    struct node *children; // of groups, lists and arrays
    size_t count;
} node_t;

// Reads a file and the files that it includes (paths are relative to its directory). Returns the root (free with
// config_source_free). On an error, adds one diagnostic and returns NULL. Adds each file that was read to *files.
node_t *config_source_read(const char *path, diagnostics_t *errors, config_files_t *files);
void config_source_free(node_t *root);

// Returns the child of that name, or NULL.
const node_t *config_source_child(const node_t *group, const char *name);
