#!/bin/sh
# cppcheck, on all C or on the files given. What it is told not to say:
#   missingIncludeSystem             it need not see libc
#   normalCheckLevelMaxBranches      newer versions: that it did not look at every branch
#   nullPointerOutOfMemory           newer versions, wrong: we abort when there is no memory
#   uninitvar                        wrong about arrays of functions; both compilers and clang-tidy look for it
#   nullPointerRedundantCheck        wrong about loops that set the pointer once; clang-tidy looks for it
#   deallocuse, invalidTestForOverflow   in tests: wrong about the macros of assertions
# Criterion's other macros are given as plain functions.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- sidecar tests
cppcheck --quiet -j 2 --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --suppress=nullPointerOutOfMemory \
    --suppress=uninitvar --suppress=nullPointerRedundantCheck \
    --suppress='deallocuse:tests/*' --suppress='invalidTestForOverflow:tests/*' \
    --template='{file}:{line}: {message} [{id}]' -Isidecar -Itests/support -D_GNU_SOURCE -DQS_VERSION='"0"' \
    '-DTest(suite,name,...)=void suite##_##name(void)' '-DTestSuite(...)=extern int suite' \
    '-DParameterizedTestParameters(suite,name)=void *suite##_##name##_rows(void)' \
    '-DParameterizedTest(row,suite,name,...)=void suite##_##name(row)' \
    '-DReportHook(kind)=void hook_##kind' "$@" 2>&1 || exit 1
echo "ok   cppcheck"
