# shellcheck shell=bash
# PostgreSQL. FOLDER is the server's own below its set; the data may lie elsewhere, where the server's user can reach it.

# Fast shutdown; a TERM would wait for the clients to go.
postgres_signal() {
    echo INT
}

postgres_lost_port() { # FOLDER
    grep -q 'could not create any TCP/IP sockets' "$1/log"
}

postgres_word() { # FOLDER — marks the server's command line
    cat "$1/where"
}

postgres_make() { # FOLDER
    local home root name data
    home=$(postgres_home)
    root=$(postgres_root)
    name=$(basename "$(dirname "$1")")
    data=$root/sets/$name/postgres/data
    echo "$data" >"$1/where"
    mkdir -p "$data"
    locked ports claim_ports "$1/ports" 1
    [[ $EUID -ne 0 ]] || chown "$POSTGRES_USER" "$data"
    (
        # The caller's folder may be closed to the server's user.
        cd /
        "${AS_POSTGRES_USER[@]}" "$home/bin/initdb" --pgdata="$data" --username=postgres --auth=trust \
            --encoding=UTF8 --locale=C --no-sync --no-instructions
    ) </dev/null >>"$1/log" 2>&1 || return 1
    cat "$HERE/postgresql.conf" >>"$data/postgresql.conf"
}

postgres_launch() { # FOLDER
    local home data port
    home=$(postgres_home)
    data=$(<"$1/where")
    read -r port <"$1/ports"
    launch "$1/pid" "$1/log" "${AS_POSTGRES_USER[@]}" "$home/bin/postgres" -D "$data" -p "$port"
}

postgres_answers() { # FOLDER
    local port
    read -r port <"$1/ports"
    postgres_says "$port" "$(<"$1/where")"
}

postgres_address() { # PORT
    echo "DATABASE_URL=postgres://postgres@127.0.0.1:$1/postgres"
}

# A killed server leaves its pid file, which stops the next start when the pid was given to another process,
# and the small shared memory segment that guards the data.
postgres_sweep() { # FOLDER
    local data key id
    [[ -f $1/where ]] && data=$(<"$1/where") && [[ -f $data/postmaster.pid ]] || return 0
    read -r key id < <(sed -n 7p "$data/postmaster.pid") || true
    if [[ -n ${id:-} ]] && awk -v key="$key" -v id="$id" \
        '$1 == key && $2 == id && $7 == 0 { found = 1 } END { exit !found }' /proc/sysvipc/shm; then
        ipcrm --shmem-id "$id"
    fi
    rm -f "$data/postmaster.pid"
}

postgres_discard() { # FOLDER
    postgres_sweep "$1"
    [[ -f $1/where ]] || return 0
    local set
    set=$(dirname "$(dirname "$(<"$1/where")")")
    rm -rf "$set/postgres"
    [[ ! -d $set ]] || rmdir --ignore-fail-on-non-empty "$set"
}
