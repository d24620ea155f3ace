# shellcheck shell=bash
# Free loopback ports. They stay free only until someone binds them: `lib/service.sh` tries again when one was lost.

# Below the range from which Linux takes the ports of outgoing connections.
FIRST_PORT=20000
PORT_COUNT=12000

is_bound() { # PORT
    local hex
    printf -v hex '%04X' "$1"
    grep -qs "^ *[0-9]*: [0-9A-F]*:$hex " /proc/net/tcp /proc/net/tcp6
}

# A stopped server keeps its port.
is_promised() { # PORT
    grep -qsx "$1" "$SERVICES"/sets/*/*/ports
}

claim_ports() { # FILE COUNT
    local port
    : >"$1"
    while [[ $(wc -l <"$1") -lt $2 ]]; do
        port=$((FIRST_PORT + RANDOM % PORT_COUNT))
        is_bound "$port" || is_promised "$port" || echo "$port" >>"$1"
    done
}
