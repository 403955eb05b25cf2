#!/usr/bin/env bash
# Prints the files that differ from the commit at which this branch left the main one, committed or not, and
# files that are new.
#
#   scripts/changed_files.sh [BRANCH]     the main branch, origin/main by default; without it the last commit is compared with
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(git merge-base HEAD "${1:-origin/main}" 2>/dev/null || git rev-parse HEAD)
{
  git diff --name-only --diff-filter=d "$base"
  git ls-files --others --exclude-standard
} | sort -u
