# From user-data (input) and meta-data ($meta) to one line a fact; scripts read them by their order.
# Whatever a person wrote is shown as text: no line end, no control character, no direction mark, and not too long for the screen.
def text: if . == null then "-" else tostring end
  | gsub("[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]+"; " ")
  | if length > 44 then .[0:41] + "..." else . end;
# What the system itself uses is taken only if it has the right form.
def only($pattern; $otherwise): if type == "string" and test("\\A(?:" + $pattern + ")\\z") then . else $otherwise end;

(.hostname // $meta[0]["local-hostname"] | only("[A-Za-z0-9][A-Za-z0-9-]{0,62}"; "tessera")),
(.users[0]?.name | only("[a-z_][a-z0-9_-]{0,31}"; "user")),
(.users[0]?.passwd | only("\\$6\\$[A-Za-z0-9./=$]{8,120}"; "!")),
(.tessera.owner? | text),
(.tessera.period? | text),
(.tessera.vgpu? | text),
(.tessera.reservation? | text),
# The rest of the lines: SSH keys.
(.users[0]?.ssh_authorized_keys[]? | only("[a-z0-9@.-]+ [A-Za-z0-9+/=]+( [ -~]*)?"; empty))
