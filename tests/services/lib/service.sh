# shellcheck shell=bash
# The life of one server. SERVICE is kafka or postgres, FOLDER its own below the set; `made` in it says that it once answered.

START_SECONDS=60
START_TRIES=5

ensure_server() { # SERVICE FOLDER
    if [[ -f $2/made ]]; then
        start_server "$@"
    else
        make_server "$@"
    fi
}

make_server() { # SERVICE FOLDER
    local try
    for ((try = 1; try <= START_TRIES; try++)); do
        discard_server "$@" || return 1
        mkdir -p "$2"
        "$1_make" "$2" || break
        "$1_launch" "$2"
        if await_answer "$@"; then
            touch "$2/made"
            return
        fi
        "$1_lost_port" "$2" || break
        say "$1 lost a port between choice and bind: trying others"
    done
    give_up "$@"
}

start_server() { # SERVICE FOLDER
    if ! running_pid "$2/pid" >/dev/null; then
        "$1_sweep" "$2"
        "$1_launch" "$2"
    fi
    await_answer "$@" || give_up "$@"
}

await_answer() { # SERVICE FOLDER
    local deadline=$((SECONDS + START_SECONDS))
    until "$1_answers" "$2"; do
        running_pid "$2/pid" >/dev/null && [[ $SECONDS -lt $deadline ]] || return 1
        sleep 0.1
    done
}

give_up() { # SERVICE FOLDER
    local what="ended"
    ! running_pid "$2/pid" >/dev/null || what="gave no answer for $START_SECONDS s"
    ! "$1_lost_port" "$2" 2>/dev/null || what="found its port $(head -n 1 "$2/ports") taken by another program"
    say "$1 $what; the end of $2/log:"
    tail -n 40 "$2/log" >&2 || true
    kill_server "$@"
    exit 1
}

stop_server() { # SERVICE FOLDER
    [[ ! -f $2/pid ]] || end_process "$2/pid" "$("$1_word" "$2")" "$("$1_signal")"
}

kill_server() { # SERVICE FOLDER
    [[ ! -f $2/pid ]] || kill_process "$2/pid" "$("$1_word" "$2")"
}

discard_server() { # SERVICE FOLDER
    stop_server "$@" || return 1
    "$1_discard" "$2"
    rm -rf "$2"
}
