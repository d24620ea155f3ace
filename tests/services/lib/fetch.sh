# shellcheck shell=bash
# Downloads and unpacks. Complete folders appear by rename, under a lock, so that two at once are safe.

fetch() {
    local folder
    folder=$(dist)
    if [[ -d $folder ]]; then need_run_tools; else need_fetch_tools; fi
    is_fetched || locked fetch fetch_missing
}

postgres_home() {
    local root folder
    root=$(postgres_root)
    folder=$(dist)
    echo "$root/dist/${folder##*/}-postgres"
}

is_fetched() {
    local home folder
    home=$(postgres_home)
    folder=$(dist)
    [[ -d $folder && -d $home ]]
}

fetch_missing() {
    need_fetch_tools
    local home folder
    home=$(postgres_home)
    folder=$(dist)
    [[ -d $folder ]] || fetch_jars "$folder"
    [[ -d $home ]] || unpack_postgres "$folder" "$home"
}

fetch_jars() { # FOLDER
    say "downloading Kafka and PostgreSQL"
    local partial=$1.partial arch
    arch=$(postgres_arch)
    rm -rf "$partial"
    mkdir -p "$partial/kafka" "$partial/postgres"
    mvn --batch-mode --file "$HERE/pom.xml" dependency:copy-dependencies -Dpostgres.arch="$arch" \
        -DoutputDirectory="$partial/kafka" </dev/null >"$partial/mvn.log" 2>&1 || {
        tail -n 30 "$partial/mvn.log" >&2
        die "mvn could not download the jars named in $HERE/pom.xml"
    }
    mv "$partial"/kafka/embedded-postgres-binaries-*.jar "$partial/postgres/"
    mv "$partial" "$1"
}

unpack_postgres() { # FOLDER HOME
    local partial=$2.partial
    rm -rf "$partial"
    mkdir -p "$partial"
    unzip -p "$1"/postgres/*.jar '*.txz' | tar -x -J --no-same-owner -C "$partial"
    chmod -R a+rX "$partial"
    mv "$partial" "$2"
}
