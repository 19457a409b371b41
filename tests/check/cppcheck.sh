#!/bin/sh
# Runs cppcheck on all C files, or on the given files. Suppressed findings:
#   missingIncludeSystem             libc headers are not needed
#   normalCheckLevelMaxBranches      newer versions: only says that some branches were not analysed
#   nullPointerOutOfMemory           newer versions, false positive: the program aborts when it has no memory
#   uninitvar                        false positive for arrays of functions; both compilers and clang-tidy check this
#   nullPointerRedundantCheck        false positive for loops that set the pointer once; clang-tidy checks this
#   deallocuse, invalidTestForOverflow   in tests: false positives in the macros of assertions
# The -D options replace Criterion's other macros by plain functions, and a keyword that cppcheck does not know.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- sidecar tests
cppcheck --quiet -j 2 --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --suppress=nullPointerOutOfMemory \
    --suppress=uninitvar --suppress=nullPointerRedundantCheck \
    --suppress='deallocuse:tests/*' --suppress='invalidTestForOverflow:tests/*' \
    --template='{file}:{line}: {message} [{id}]' -Isidecar -Itests -Itests/support -D_GNU_SOURCE \
    '-DTest(suite,name,...)=void suite##_##name(void)' '-DTestSuite(...)=extern int suite' \
    '-DParameterizedTestParameters(suite,name)=void *suite##_##name##_rows(void)' \
    '-DParameterizedTest(row,suite,name,...)=void suite##_##name(row)' \
    '-DReportHook(kind)=void hook_##kind' '-D__typeof__(value)=void *' "$@" 2>&1 || exit 1
echo "ok   cppcheck"
