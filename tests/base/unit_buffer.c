#include "base/buffer.h"
#include "suite.h"

#include <malloc.h>

/* A thousand queues have nine keys each. */
Test(unit_buffer, a_printed_text_takes_no_more_memory_than_a_copy) {
    char *printed = mem_printf("sidecar:%s:%s", "email", "stamps"), *copy = mem_str(printed);
    cr_assert_str_eq(printed, "sidecar:email:stamps");
    cr_assert_eq(malloc_usable_size(printed), malloc_usable_size(copy));
    free(printed);
    free(copy);
}
