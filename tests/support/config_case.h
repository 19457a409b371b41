// Config files of a test: written into a directory of the test's own, loaded, and their messages compared.
#pragma once

#include "suite.h"

#include <stddef.h>

#include "dialects/registry.h"

extern char config_case_dir[64];
extern char config_case_path[128]; // the file that config_case_load writes

// .init and .fini of a suite: make the directory, remove the sidecar's variables from the environment; remove the directory.
void config_case_begin(void);
void config_case_end(void);

void config_case_write(const char *file, const void *bytes, size_t len);
config_t *config_case_read(const char *path, buffer_t *messages); // config_load with the dialects of the program
config_t *config_case_load(const char *text, buffer_t *messages);

// Returns the messages with F in place of the path of the file.
char *config_case_messages(const buffer_t *messages);

// Loads a config that must be refused with exactly these messages.
void config_case_expect_fault(const char *text, const char *expected);

typedef struct config_case_row {
    const char *text;
    const char *expected;
} config_case_row_t;

void config_case_expect_faults(const config_case_row_t *rows, size_t count);

// Removes the sidecar's variables from the environment.
void config_case_forget_environment(void);

// Loads a config that must be good; sets *warnings. `warnings` NULL: there must be none.
config_t *config_case_good(const char *text, char **warnings);
