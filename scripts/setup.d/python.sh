# The virtual environment: a Python that is new enough, and exactly the packages of the lock, by their hashes.

python=

new_enough() { [ -x "$1" ] && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# A Python of the distribution comes first: its headers and its venv have known package names.
choose_python() {
    local candidate
    for candidate in "${PYTHON:-}" /usr/bin/python3 "$(command -v python3 || true)"; do
        if [ -n "$candidate" ] && new_enough "$candidate"; then
            python=$candidate
            return 0
        fi
    done
    return 1
}

has_venv() { "$python" -c 'import venv, ensurepip'; }
has_headers() { test -f "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"; }

want_python() {
    if ! choose_python; then
        [ ! -x /usr/bin/python3 ] ||
            fail "Python here is $(/usr/bin/python3 -V 2>&1 | cut -d ' ' -f 2); 3.11 or newer is needed." \
                "Use Debian 12 or newer, or set PYTHON to a newer one."
        missing+=(python3 python3-venv python3-dev)
    elif [ "$python" = /usr/bin/python3 ]; then
        want python3-venv has_venv
        want python3-dev has_headers
    else
        has_venv && has_headers || fail "$python has no venv module or no headers." "Install them, or set PYTHON to another."
    fi
}

# make_venv PURPOSE
make_venv() {
    if ! new_enough .venv/bin/python; then
        rm -rf .venv
        progress "makes a virtual environment with $("$python" -V)" "$python" -m venv .venv ||
            fail "The virtual environment could not be made." "See the lines above."
    fi
    local lock=requirements/$1.txt stamp=.venv/.$1.stamp hash
    hash=$(stamp_of requirements/build.txt "$lock" pyproject.toml .venv/pyvenv.cfg)
    if stamped "$stamp" "$hash"; then return; fi
    local pip=(.venv/bin/python -m pip --disable-pip-version-check install)
    progress "installs Python packages from $lock" install_locked "$lock" ||
        fail "Installing Python packages failed." "See the lines above; is the package index reachable?"
    echo "$hash" >"$stamp"
}

# No isolated build: libvirt-python is compiled with the setuptools of the lock, not with one that a server chose.
install_locked() {
    "${pip[@]}" --require-hashes -r requirements/build.txt &&
        "${pip[@]}" --require-hashes --no-build-isolation -r "$1" &&
        "${pip[@]}" --no-deps --no-build-isolation -e .
}
