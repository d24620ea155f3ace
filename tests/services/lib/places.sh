# shellcheck shell=bash
# Where things lie, and which user PostgreSQL runs as.

SERVICES=${IDEMPOTENT_JOBS_SERVICES:-$(cd "$HERE/../.." && pwd -P)/target/services}
mkdir -p "$SERVICES/dist" "$SERVICES/sets" "$SERVICES/locks"
SERVICES=$(cd "$SERVICES" && pwd -P)

# PostgreSQL refuses to run as root: the words before a command that give it to another user.
POSTGRES_USER=nobody
AS_POSTGRES_USER=()
if [[ $EUID -eq 0 ]]; then
    AS_POSTGRES_USER=(setpriv "--reuid=$POSTGRES_USER" "--regid=$(id -g "$POSTGRES_USER")" --clear-groups --)
fi

postgres_arch() {
    case $(uname -m) in
        x86_64) echo amd64 ;;
        aarch64) echo arm64v8 ;;
        *) die "no PostgreSQL binaries are known for $(uname -m): only x86_64 and aarch64" ;;
    esac
}

# Named after the pinned versions, so that new ones never change the files below a running server.
dist() {
    local arch sum
    arch=$(postgres_arch)
    sum=$(sha256sum <"$HERE/pom.xml")
    echo "$SERVICES/dist/${sum:0:12}-$arch"
}

set_folder() { # NAME
    [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || die "a set's name is letters, digits, '.', '_' and '-', not '$1'"
    echo "$SERVICES/sets/$1"
}

# Root's folders may be closed to the user that PostgreSQL runs as; its files then go to a folder below the temporary one.
postgres_root() {
    if "${AS_POSTGRES_USER[@]}" test -x "$SERVICES"; then
        echo "$SERVICES"
        return
    fi
    local sum root
    sum=$(sha256sum <<<"$SERVICES")
    root=${TMPDIR:-/tmp}/idempotent-jobs-services-${sum:0:12}
    mkdir -p "$root"
    # Anyone may make a folder of this name there.
    [[ -O $root && ! -L $root ]] || die "$root belongs to someone else: remove it, or set TMPDIR"
    chmod 755 "$root"
    "${AS_POSTGRES_USER[@]}" test -x "$root" ||
        die "user '$POSTGRES_USER' can read neither $SERVICES nor $root: set IDEMPOTENT_JOBS_SERVICES to a folder that it can read"
    echo "$root"
}
