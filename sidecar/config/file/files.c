#include "config/file/files.h"

#include "base/buffer.h"
#include "base/file.h"

enum { BETWEEN_FILES = '\0' }; // no config has this byte

static void hash_bytes(uint64_t *hash, const char *bytes, size_t len) {
    for (size_t i = 0; i < len; i++) *hash = (*hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211); // FNV-1a
}

static void hash_end_of_file(uint64_t *hash) { hash_bytes(hash, &(char){BETWEEN_FILES}, 1); }

void config_files_add(config_files_t *files, const char *path, const char *text, size_t len) {
    files->paths = mem_grown(files->paths, files->count, sizeof *files->paths);
    files->paths[files->count++] = mem_str(path);
    hash_bytes(&files->hash, text, len);
    hash_end_of_file(&files->hash);
}

static bool hash_file(uint64_t *hash, const char *path) {
    FILE *file = file_open_regular(path);
    if (!file) return false;
    char chunk[8192];
    for (size_t got; (got = fread(chunk, 1, sizeof chunk, file)) > 0;) hash_bytes(hash, chunk, got);
    bool good = !ferror(file);
    fclose(file);
    hash_end_of_file(hash);
    return good;
}

bool config_files_changed(const config_files_t *files) {
    uint64_t hash = 0;
    for (size_t i = 0; i < files->count; i++)
        if (!hash_file(&hash, files->paths[i])) return true;
    return files->count == 0 || hash != files->hash;
}

void config_files_clear(config_files_t *files) {
    for (size_t i = 0; i < files->count; i++) free(files->paths[i]);
    free(files->paths);
    *files = (config_files_t){0};
}
