// Texts that the build embeds from files of their own.
#ifndef QS_CLI_TEXTS_H
#define QS_CLI_TEXTS_H

extern const char text_man_program[]; // queue-sidecar(1), of docs/man
extern const char text_man_config[];  // queue-sidecar.cfg(5)
extern const char text_complete_bash[];
extern const char text_complete_zsh[];

#endif
