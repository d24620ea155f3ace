# shellcheck shell=bash
# Servers that outlive the shell that started them, and are never mistaken for a stranger that got their pid.

STOP_SECONDS=20

# A server that kept a caller's files open would keep a lock held, or a pipe from ending.
close_inherited_files() {
    local file number
    for file in /proc/self/fd/*; do
        number=${file##*/}
        [[ $number -le 2 ]] || exec {number}>&-
    done
}

launch() { # PIDFILE LOG COMMAND…
    local pidfile=$1 log=$2
    shift 2
    # `log` is of this run alone, so that an old mistake is not taken for a new one.
    [[ ! -f $log ]] || cat "$log" >>"$log.before"
    : >"$log"
    (
        cd /
        close_inherited_files
        exec setsid "$@"
    ) </dev/null >>"$log" 2>&1 &
    echo "$! $(started_at "$!")" >"$pidfile"
}

# Prints nothing for a process that is gone or a zombie.
started_at() { # PID
    local stat
    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 0
    # The second field, the program's name in brackets, may hold spaces.
    read -r -a stat <<<"${stat##*) }"
    [[ ${stat[0]} == Z ]] || echo "${stat[19]}"
}

# Prints the pid of a server that runs.
running_pid() { # PIDFILE
    local pid start
    [[ -f $1 ]] && read -r pid start <"$1" && [[ -n $start && $(started_at "$pid") == "$start" ]] && echo "$pid"
}

# The start time tells a process from a later one with its pid; the command line is the second witness.
# Right after the fork it is still this script's.
own_pid() { # PIDFILE WORD — 1: none runs, 2: it is a stranger
    local pid
    for _ in {1..20}; do
        pid=$(running_pid "$1") || return 1
        if tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF -- "$2"; then
            echo "$pid"
            return
        fi
        sleep 0.1
    done
    say "process $pid is not the server that $1 names: left alone"
    return 2
}

wait_gone() { # SECONDS PID…
    local deadline=$((SECONDS + $1)) pid
    shift
    for pid in "$@"; do
        while [[ -n $(started_at "$pid") ]]; do
            [[ $SECONDS -lt $deadline ]] || return 1
            sleep 0.05
        done
    done
}

child_pids() { # PID
    local stat fields
    for stat in /proc/[0-9]*/stat; do
        { stat=$(<"$stat"); } 2>/dev/null || continue
        read -r -a fields <<<"${stat##*) }"
        [[ ${fields[1]} != "$1" ]] || echo "${stat%% *}"
    done
}

end_process() { # PIDFILE WORD SIGNAL
    local pid
    pid=$(own_pid "$1" "$2") || return $(($? - 1))
    kill -s "$3" "$pid" 2>/dev/null || true
    wait_gone "$STOP_SECONDS" "$pid" || kill_process "$1" "$2"
}

# The children too: a backend that outlives its postmaster keeps the data folder locked.
kill_process() { # PIDFILE WORD
    local pid children
    pid=$(own_pid "$1" "$2") || return $(($? - 1))
    mapfile -t children < <(child_pids "$pid")
    kill -s KILL "$pid" "${children[@]}" 2>/dev/null || true
    wait_gone "$STOP_SECONDS" "$pid" "${children[@]}" || die "process $pid does not end, even when killed"
}
