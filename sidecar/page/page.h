// The files of the page, as embed.sh makes them from this folder: gzipped, so that each browser takes them as they are.
#pragma once

#include "base/std.h"

typedef struct page_file {
    const char *path; // such as "/assets/app.js"
    const char *type;
    const unsigned char *gzipped;
    size_t size;
} page_file_t;

const page_file_t *page_find(const char *path); // NULL = there is none

extern const page_file_t page_files[];
extern const size_t page_file_count;
