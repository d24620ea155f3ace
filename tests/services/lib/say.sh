# shellcheck shell=bash
# Words for people go to stderr: stdout carries nothing but the addresses.

say() {
    printf 'services: %s\n' "$*" >&2
}

die() {
    say "$@"
    exit 1
}
