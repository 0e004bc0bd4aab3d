# From network-config (version 2) to lines "MAC ADDRESS/PREFIX GATEWAY NAMESERVER,..."; "-" where there is none, "dhcp" as address.
def only($pattern): if type == "string" and test("\\A(?:" + $pattern + ")\\z") then . else "-" end;
def ip: only("[0-9A-Fa-f:.]{2,45}");

(.network // .) | .ethernets // {} | to_entries[] | .value
| [ (.match.macaddress? | only("(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}") | ascii_downcase),
    (if .dhcp4 == true then "dhcp" else (.addresses[0]? | only("[0-9.]{7,15}/[0-9]{1,2}")) end),
    ((.gateway4 // (.routes[]? | select(.to == "default" or .to == "0.0.0.0/0") | .via)) // "-" | ip),
    ([.nameservers.addresses[]? | ip | select(. != "-")] | if length == 0 then "-" else join(",") end) ]
| join(" ")
