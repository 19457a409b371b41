// The likely cause of a syntax error: libconfig says only where it gave up.
#pragma once

#include "config/file/lexer.h"

// Appends the likely cause of a syntax error that libconfig found on this line, as " (...)", or nothing.
void syntax_hint(const lexer_t *lexer, int line, buffer_t *out);
