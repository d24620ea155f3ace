# shellcheck shell=bash
# One at a time, across processes; the kernel frees the lock of a process that died.

locked() { # LOCK COMMAND…
    (
        flock 9
        "${@:2}"
    ) 9>"$SERVICES/locks/$1"
}
