# shellcheck shell=bash
# A command between `up` and `down`, on a new set. A second one of the same name waits for the first to end.

with() { # NAME COMMAND…
    local name=$1 lock caught='' child status=0
    shift
    exec {lock}>"$SERVICES/locks/with-$name"
    flock "$lock"
    # A run that was killed may have left its set.
    down "$name"
    # shellcheck disable=SC2064  # the name of now
    trap "trap '' INT TERM; down '$name' || say 'down failed'" EXIT
    trap 'caught=INT' INT
    trap 'caught=TERM' TERM
    up "$name" >/dev/null

    set -a
    # shellcheck source=/dev/null
    source "$SERVICES/sets/$name/env"
    set +a
    if [[ -z $caught ]]; then
        # In the background, so that a signal is acted on at once; a shell lets background commands ignore INT.
        env --default-signal=INT,QUIT -- "$@" <&0 {lock}>&- &
        child=$!
        wait "$child" || status=$?
    fi
    if [[ -n $caught ]]; then
        [[ -z ${child:-} ]] || end_child "$child"
        status=$((128 + $(kill -l "$caught")))
    fi
    exit "$status"
}

end_child() { # PID
    kill -s TERM "$1" 2>/dev/null || true
    wait "$1" || true
}
