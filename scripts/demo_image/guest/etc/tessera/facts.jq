# From user-data (input), meta-data ($meta) and network-config ($network) to lines: first one a fact, known by their order.
# One program for all, since in emulation the start of jq takes a second.

# What is there, or null, whatever the shape of the seed: every fact has its line.
def at(path): [path?][0];
# Whatever a person wrote is shown as text: no line end, no control character, no direction mark, and not too long.
def text: if . == null then "-" else tostring end
  | gsub("[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]+"; " ")
  | if length > 44 then .[0:41] + "..." else . end;
# What the system itself uses is taken only if it has the right form.
def only($pattern; otherwise): if type == "string" and test("\\A(?:" + $pattern + ")\\z") then . else otherwise end;
def host_name: only("[A-Za-z0-9][A-Za-z0-9-]{0,62}"; empty);
def ipv4: "[0-9.]{7,15}";

# cloud-config -> the seven facts
([at(.hostname), at($meta[0]["local-hostname"])] | map(host_name) | .[0] // "tessera"),
(at(.users[0].name) | only("[a-z_][a-z0-9_-]{0,31}"; "user")),
(at(.users[0].passwd) | only("\\$6\\$[A-Za-z0-9./=$]{8,120}"; "!")),
(at(.tessera.owner), at(.tessera.period), at(.tessera.vgpu), at(.tessera.reservation) | text),

# SSH keys -> "key ..."
(at(.users[0].ssh_authorized_keys)[]? | only("[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [ -~]*)?"; empty) | "key " + .),

# network cards -> "card MAC ADDRESS/PREFIX GATEWAY NAMESERVER,...": "-" where there is none, "dhcp" instead of an address
(at($network[0].ethernets) // {} | .[]? | select(type == "object")
  | [ "card",
      (at(.match.macaddress) | only("(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}"; "-") | ascii_downcase),
      (if .dhcp4 == true then "dhcp" else at(.addresses[0]) | only(ipv4 + "/[0-9]{1,2}"; "-") end),
      ([at(.gateway4), (at(.routes)[]? | select(at(.to) == "default" or at(.to) == "0.0.0.0/0") | at(.via))]
        | map(only(ipv4; empty)) | .[0] // "-"),
      ([at(.nameservers.addresses)[]? | only("[0-9A-Fa-f:.]{2,45}"; empty)] | join(",") | if . == "" then "-" else . end) ]
  | join(" "))
