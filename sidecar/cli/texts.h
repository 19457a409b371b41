// Texts that the build embeds from files of their own.
#pragma once

extern const char text_man_program[]; // queue-sidecar(1), of docs/man
extern const char text_man_config[];  // queue-sidecar.cfg(5)
extern const char text_complete_bash[];
extern const char text_complete_zsh[];
