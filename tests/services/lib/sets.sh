# shellcheck shell=bash
# Named sets of servers, side by side.

SERVERS=(kafka postgres)

up() { # NAME [SERVICE…]
    local folder service
    folder=$(set_folder "$1")
    shift
    [[ $# -gt 0 ]] || set -- "${SERVERS[@]}"
    for service in "$@"; do
        check_service "$service"
    done
    fetch
    locked "set-${folder##*/}" up_locked "$folder" "$@"
    cat "$folder/env"
}

up_locked() { # FOLDER SERVICE…
    mkdir -p "$1"
    at_once ensure_server "$@"
    write_env "$1"
}

at_once() { # FUNCTION FOLDER SERVICE…
    local service jobs=() job failed=0
    for service in "${@:3}"; do
        "$1" "$service" "$2/$service" &
        jobs+=("$!")
    done
    for job in "${jobs[@]}"; do
        wait "$job" || failed=1
    done
    return "$failed"
}

write_env() { # FOLDER
    local service port
    for service in "${SERVERS[@]}"; do
        [[ -f $1/$service/made ]] || continue
        read -r port <"$1/$service/ports"
        "${service}_address" "$port"
    done >"$1/env.partial"
    mv "$1/env.partial" "$1/env"
}

show_env() { # NAME
    local folder
    folder=$(set_folder "$1")
    [[ -f $folder/env ]] || die "there is no set '$1': run up $1"
    cat "$folder/env"
}

outage() { # stop|start|kill NAME SERVICE
    local folder
    folder=$(set_folder "$2")
    check_service "$3"
    [[ -f $folder/$3/made ]] || die "set '$2' has no $3: run up $2 $3"
    [[ $1 != start ]] || fetch
    locked "set-$2" "$1_server" "$3" "$folder/$3"
}

down() { # NAME | --all
    local folder
    if [[ $1 == --all ]]; then
        for folder in "$SERVICES"/sets/*/; do
            [[ ! -d $folder ]] || down "$(basename "$folder")"
        done
        return
    fi
    folder=$(set_folder "$1")
    locked "set-$1" down_locked "$folder"
}

down_locked() { # FOLDER
    at_once discard_server "$1" "${SERVERS[@]}" || die "$1 is kept: not all of its servers ended"
    rm -rf "$1"
}

check_service() { # SERVICE
    [[ " ${SERVERS[*]} " == *" $1 "* ]] || die "a service is one of ${SERVERS[*]}, not '$1'"
}
