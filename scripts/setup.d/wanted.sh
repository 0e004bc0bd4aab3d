# What the machine must have: asked by command and version, answered by the exact name of the package that brings it.

missing=()

# want PACKAGE QUESTION...: the package is missing if the question fails.
want() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

program() { PATH=$PATH:/usr/sbin:/sbin command -v "$1"; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
any_file() { compgen -G "$1"; }

# at_least WANTED TEXT: whether the first version number in the text is at least the wanted one.
at_least() {
    local found
    found=$(grep -oE '[0-9]+(\.[0-9]+)*' <<<"$2" | head -n 1)
    [ -n "$found" ] && [ "$(printf '%s\n%s\n' "$1" "$found" | sort -V | head -n 1)" = "$1" ]
}

has_postgres() {
    local server
    for server in /usr/lib/postgresql/*/bin/postgres; do
        [ -x "$server" ] && at_least 15 "$("$server" --version)" && return
    done
    return 1
}
has_redis() { program redis-server || program valkey-server; }
has_libvirtd() { program libvirtd && at_least 9.0 "$(PATH=$PATH:/usr/sbin libvirtd --version)"; }
has_qemu() { program qemu-system-x86_64 && at_least 7.2 "$(qemu-system-x86_64 --version)"; }
has_network_roms() { any_file '/usr/lib/ipxe/qemu/efi-virtio.rom' || any_file '/usr/share/qemu/efi-virtio.rom'; }
has_node() { program node && at_least 18 "$(node --version)"; }
has_browser() { program chromium || program chromium-browser || program google-chrome; }

# wanted PURPOSE: fills `missing`.
wanted() {
    missing=()
    want_python
    want_services
    want gcc program gcc
    want libc6-dev test -f /usr/include/stdio.h
    want pkg-config program pkg-config
    want nodejs has_node
    want npm program npm
    want xorriso program xorriso
    want ca-certificates test -f /etc/ssl/certs/ca-certificates.crt
    want procps program ps
    want openssh-client program ssh
    local package
    while read -r package; do
        want "$package" installed "$package"
    done <scripts/demo_image/packages.txt
    if [ "$1" != run ]; then
        want chromium has_browser
        want openssh-server program sshd
    fi
    if [ "$1" = lab ]; then
        want mmdebstrap program mmdebstrap
        want debian-archive-keyring test -f /usr/share/keyrings/debian-archive-keyring.gpg
        want e2fsprogs program mke2fs
        want util-linux program setpriv
    fi
    # The same package may bring several things.
    [ ${#missing[@]} -eq 0 ] || mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
}

# A service that the environment names is not installed here.
want_services() {
    [ -n "${DATABASE_URL:-}" ] || want postgresql has_postgres
    [ -n "${REDIS_URL:-}" ] || want redis-server has_redis
    want libvirt-daemon-system has_libvirtd
    want libvirt-daemon-driver-qemu any_file '/usr/lib/*/libvirt/connection-driver/libvirt_driver_qemu.so'
    want libvirt-daemon-config-nwfilter any_file '/usr/share/libvirt/nwfilter/clean-traffic.xml'
    want libvirt-clients program virsh
    want libvirt-dev test -f /usr/include/libvirt/libvirt.h
    want qemu-system-x86 has_qemu
    want qemu-utils program qemu-img
    want seabios any_file '/usr/share/seabios/vgabios-stdvga.bin'
    want ipxe-qemu has_network_roms
    want ovmf any_file '/usr/share/qemu/firmware/*-edk2-x86_64*.json'
    want swtpm program swtpm
    want swtpm-tools program swtpm_setup
    want dnsmasq-base program dnsmasq
    want iptables program iptables
    want ebtables program ebtables
    want iproute2 program ip
}

check_machine() {
    [ "$(uname -m)" = x86_64 ] || fail "This is $(uname -m); the machines are x86-64." "Use an x86-64 host."
    command -v apt-get >/dev/null || fail "There is no apt-get here." "Use Debian 12 or 13, or Ubuntu 24.04."
    local memory disk
    memory=$(awk '/^MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
    [ "$memory" -ge 1500 ] || fail "Only $memory MiB of memory are free; 1500 are needed." "End something, or use a larger machine."
    mkdir -p "$var" || fail "The folder $var cannot be made." "Set VAR_DIR to a folder that you may write."
    disk=$(df -Pm "$var" | awk 'NR == 2 {print $4}')
    [ "$disk" -ge 2000 ] || fail "Only $disk MiB are free in $var; 2000 are needed." "Free some, or set VAR_DIR to another disk."
}
