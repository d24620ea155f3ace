# shellcheck shell=bash
# Apache Kafka: one node, broker and controller. FOLDER is the server's own below its set.

kafka_signal() {
    echo TERM
}

kafka_lost_port() { # FOLDER
    grep -q 'failed to bind to .*: Address already in use' "$1/log"
}

kafka_word() { # FOLDER — marks the server's command line
    echo "$1/server.properties"
}

kafka_java() { # FOLDER ARGUMENT… — prints the command, one word a line
    local jars
    jars=$(dist)/kafka/'*'
    # Native libraries and counters that a killed JVM leaves behind go with the folder, or are not made.
    printf '%s\n' java -cp "$jars" -Djava.io.tmpdir="$1/tmp" -XX:-UsePerfData "${@:2}"
}

kafka_make() { # FOLDER
    local port controller cluster command
    mkdir -p "$1/tmp"
    locked ports claim_ports "$1/ports" 2
    { read -r port; read -r controller; } <"$1/ports"
    # A probe knows our server by this name.
    cluster=$(head -c 16 /dev/urandom | base64 | tr -d '=' | tr '+/' 'AB')
    echo "$cluster" >"$1/cluster"
    {
        cat "$HERE/kafka.properties"
        echo "listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller"
        echo "advertised.listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller"
        echo "controller.quorum.bootstrap.servers=127.0.0.1:$controller"
        echo "log.dirs=$1/data"
    } >"$1/server.properties"
    mapfile -t command < <(kafka_java "$1" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dorg.slf4j.simpleLogger.defaultLogLevel=warn kafka.tools.StorageTool)
    "${command[@]}" format --standalone -t "$cluster" -c "$1/server.properties" </dev/null >>"$1/log" 2>&1
}

# The log keeps what explains a failed test: who joined and left a group, and what went wrong.
kafka_launch() { # FOLDER
    local command logger=-Dorg.slf4j.simpleLogger
    mapfile -t command < <(kafka_java "$1" -Xmx768m -XX:+ExitOnOutOfMemoryError \
        "$logger.showDateTime=true" "$logger.dateTimeFormat=HH:mm:ss.SSS" "$logger.defaultLogLevel=warn" \
        "$logger.log.org.apache.kafka.coordinator.group=info" "$logger.log.org.apache.kafka.server.BrokerLifecycleManager=info" \
        kafka.Kafka "$1/server.properties")
    launch "$1/pid" "$1/log" "${command[@]}"
}

kafka_answers() { # FOLDER
    local port cluster
    read -r port <"$1/ports"
    read -r cluster <"$1/cluster"
    kafka_says "$port" "$cluster"
}

kafka_address() { # PORT
    echo "KAFKA_BROKERS=127.0.0.1:$1"
}

# Kafka leaves nothing outside its folder, and starts again on what a killed one left there.
kafka_sweep() { # FOLDER
    :
}

kafka_discard() { # FOLDER
    :
}
