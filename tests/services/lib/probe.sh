# shellcheck shell=bash
# Asks a server a question over its own protocol, and tells our server from a stranger that got the port.
# A client in Java would take a second for each try.

PROBE_SECONDS=5

# A Metadata request (version 4, no topics) is answered with the brokers that are ready and the cluster's id.
kafka_says() { # PORT CLUSTER
    local reply
    reply=$(exchange_frame "$1" '\0\0\0\x0f\0\x03\0\x04\0\0\0\x01\xff\xff\0\0\0\0\0' 2>/dev/null | tr -cd '[:print:]') || return 1
    [[ $reply == *127.0.0.1*"$2"* ]]
}

exchange_frame() { # PORT REQUEST
    local socket size
    exec {socket}<>"/dev/tcp/127.0.0.1/$1" || return 1
    # shellcheck disable=SC2059  # the request is made of escapes
    printf "$2" >&"$socket"
    size=$(timeout "$PROBE_SECONDS" head -c 4 <&"$socket" | od -An -tu4 --endian=big)
    timeout "$PROBE_SECONDS" head -c "$((size))" <&"$socket"
}

# Startup, one query and goodbye in one go: the server answers all and closes.
postgres_says() { # PORT DATA
    local reply
    reply=$(exchange_all "$1" '\0\0\0\x29\0\x03\0\0user\0postgres\0database\0postgres\0\0Q\0\0\0\x18SHOW data_directory\0X\0\0\0\x04' 2>/dev/null |
        tr -cd '[:print:]') || return 1
    [[ $reply == *"$2"* ]]
}

exchange_all() { # PORT REQUEST
    local socket
    exec {socket}<>"/dev/tcp/127.0.0.1/$1" || return 1
    # shellcheck disable=SC2059  # the request is made of escapes
    printf "$2" >&"$socket"
    timeout "$PROBE_SECONDS" cat <&"$socket"
}
