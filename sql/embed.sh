#!/bin/sh
# Prints C source with the migrations named on the command line, in that order: NNN_NAME.sql makes schema NNN.
# Keeps comments: SQLite stores those inside statements, and people read them with `.schema`.
set -eu
printf '// Made by embed.sh from sql/*.sql: edit those.\n#include <stddef.h>\n#include "audit/migrations.h"\n'
printf '\nconst migration_t migrations[] = {\n'
for file in "$@"; do
    name=$(basename "$file" .sql)
    number=${name%%_*}
    while [ "${number#0}" != "$number" ]; do number=${number#0}; done # no octal
    printf '    {%s, "%s",\n' "$number" "$name"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/     "/' -e 's/$/\\n"/' "$file"
    printf '    },\n'
done
printf '};\nconst size_t migration_count = sizeof migrations / sizeof *migrations;\n'
