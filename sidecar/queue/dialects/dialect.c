#include "queue/dialects/dialect.h"

const dialect_ops_t *dialect_ops(dialect_t dialect) {
    switch (dialect) {
    case DIALECT_LIST: return &dialect_list;
    }
    return &dialect_list;
}
