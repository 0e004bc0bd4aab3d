# How set-up talks: one line for every step, a line now and then during a long one, two sentences at a refusal.

say() { printf 'set-up: %s\n' "$*"; }

# fail WHAT REMEDY
fail() {
    printf '\nset-up: %s  %s\n' "$1" "$2" >&2
    exit 1
}

# progress TEXT COMMAND...: runs the command with its output in a file; shows the file's end if it fails.
progress() {
    local text=$1 output began=$SECONDS child status=0
    shift
    output=$(mktemp)
    say "$text"
    "$@" >"$output" 2>&1 </dev/null &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        sleep 0.2
        if [ $(((SECONDS - began) / 15)) -gt "${told:-0}" ]; then
            told=$(((SECONDS - began) / 15))
            say "... $((SECONDS - began)) s: $(tail -n 1 "$output" | cut -c 1-100)"
        fi
    done
    told=0
    wait "$child" || status=$?
    [ "$status" -eq 0 ] || tail -n 40 "$output" >&2
    rm -f "$output"
    return "$status"
}

# as_root COMMAND...
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -- "$@"
    else
        fail "This needs root, and sudo is not installed." "Run it as root, or install by hand: apt-get install ${missing[*]}."
    fi
}

# stamp_of FILE...: one hash over the names and contents of these files.
stamp_of() { sha256sum -- "$@" | sha256sum | cut -d ' ' -f 1; }

# stamped STAMP HASH: whether the stamp says so.
stamped() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }
