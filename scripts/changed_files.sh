#!/usr/bin/env bash
# Prints the files that differ from the merge base with the main branch, committed or not, and untracked files.
#
#   scripts/changed_files.sh [BRANCH]     the main branch, origin/main by default; if it does not exist, HEAD
set -euo pipefail
cd "$(dirname "$0")/.."
base=$(git merge-base HEAD "${1:-origin/main}" 2>/dev/null || git rev-parse HEAD)
{
  git diff --name-only --diff-filter=d "$base"
  git ls-files --others --exclude-standard
} | sort -u
