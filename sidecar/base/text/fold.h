// Search in text without regard to case.
#pragma once

#include "base/slice.h"

// Whether `text` contains `wanted`, where A and a are the same, as are the two cases of each letter of Latin (up to U+017F),
// Greek and Cyrillic in UTF-8. All else compares byte by byte: other scripts, letters with combining marks, and pairs of unequal
// length, such as the dotted I of Turkish, or ß and SS. Both may be any bytes.
bool fold_find(slice_t text, slice_t wanted);
