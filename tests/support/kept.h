/* Memory that lives until the test ends. All text and all replies that the functions of this folder return are kept, so a test
 * need not free them; it may, where they would become much. LeakSanitizer does not report kept memory. */
#pragma once

#define kept(pointer) ((__typeof__(pointer))kept_memory(pointer))
void *kept_memory(void *pointer);
/* The formatted text, kept. */
char *kept_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
