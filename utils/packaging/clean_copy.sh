# Sourced by the scripts here: the version, and a copy of the sources without what was built.

version=$(sed -n 's/^project(libbitmaprdma VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[[ -n $version ]] || { echo "no version found in CMakeLists.txt" >&2; exit 1; }

# clean_copy DIRECTORY: the files as they are now, but those that git ignores; without git, all but build trees.
clean_copy() {
  mkdir -p "$1"
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"; done
  else
    find . -path './build*' -prune -o \( -type f -o -type l \) -print0
  fi | tar --null --files-from=- -cf - | tar -C "$1" -xf -
}
