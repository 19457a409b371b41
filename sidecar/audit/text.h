// What of a slice may stand in the database as TEXT.
#ifndef QS_AUDIT_TEXT_H
#define QS_AUDIT_TEXT_H

#include <stdbool.h>

#include "base/slice.h"

// Valid UTF-8 without a NUL. What SQLite calls TEXT but is not, its own functions read past or cut off.
bool text_is_storable(slice_t slice);

#endif
