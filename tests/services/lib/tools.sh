# shellcheck shell=bash
# The programs that this needs, each with the Debian package that brings it.

RUN_TOOLS=(java:default-jdk-headless setsid:util-linux flock:util-linux setpriv:util-linux)
FETCH_TOOLS=(mvn:maven unzip:unzip tar:tar xz:xz-utils)

need_run_tools() {
    need_tools "${RUN_TOOLS[@]}"
}

# All that is missing is said at once.
need_fetch_tools() {
    need_tools "${RUN_TOOLS[@]}" "${FETCH_TOOLS[@]}"
    need_java_17
}

missing_packages() { # TOOL:PACKAGE…
    local tool
    for tool in "$@"; do
        command -v "${tool%%:*}" >/dev/null || echo "${tool#*:}"
    done | sort -u
}

need_tools() { # TOOL:PACKAGE…
    local missing
    mapfile -t missing < <(missing_packages "$@")
    if [[ ${#missing[@]} -gt 0 && ${CI:-} == true && $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
        install_packages "${missing[@]}"
        mapfile -t missing < <(missing_packages "$@")
    fi
    [[ ${#missing[@]} -eq 0 ]] || die "programs are missing; on Debian: apt-get install ${missing[*]}"
}

install_packages() { # PACKAGE…
    say "installing $*"
    {
        apt-get update -q
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
    } >&2 || say "apt-get failed"
}

need_java_17() {
    local version
    version=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java.specification.version = //p')
    [[ ${version%%.*} -ge 17 ]] || die "Kafka needs Java 17 or newer, 'java' is ${version:-of no known version}; on Debian: apt-get install openjdk-17-jdk-headless"
}
