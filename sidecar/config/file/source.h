// A config file as a tree of names and literal texts. Only source.c uses libconfig.
#pragma once

#include "config/file/diagnostic.h"

typedef enum node_kind {
    NODE_GROUP,
    NODE_LIST,
    NODE_ARRAY,
    NODE_TEXT,
    NODE_INT,
    NODE_REAL,
    NODE_BOOL,
    NODE_ANY // text of an environment variable, which has no quotes to tell a type by
} node_kind_t;

typedef struct node {
    node_kind_t kind;
    char *name;            // NULL in a list or an array, and at the root
    char *text;            // scalars: the value; an integer as the literal that stands in the file
    location_t location;   // of the name (in a list: of the value); the file is owned
    struct node *children; // groups, lists and arrays
    size_t count;
} node_t;

// Reads a file with what it includes (paths relative to the file's own directory). Returns the root (free with
// config_source_free), or NULL with one fault added.
node_t *config_source_read(const char *path, diagnostics_t *errors);
void config_source_free(node_t *root);

// Returns the child of that name, or NULL.
const node_t *config_source_child(const node_t *group, const char *name);
