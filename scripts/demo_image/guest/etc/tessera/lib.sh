# Shared by the scripts beside it. A value from the seed is only ever an argument of printf '%s' or a line of a file.
PATH=/bin:/sbin:/usr/bin:/usr/sbin
FACTS=/run/tessera/facts
HEADER_ROWS=11

say() { # a line in the serial log
	printf 'tessera: %s\n' "$*" >/dev/ttyS0
}

read_facts() { # the lines of facts.jq, in its order
	hostname=tessera user='' hash='' owner='' period='' vgpu='' reservation=''
	[ -s "$FACTS" ] || return 1
	{
		IFS= read -r hostname
		IFS= read -r user
		IFS= read -r hash
		IFS= read -r owner
		IFS= read -r period
		IFS= read -r vgpu
		IFS= read -r reservation
	} <"$FACTS"
}

address() { # what the machine is reached by, as far as it is known
	cat /run/tessera/address 2>/dev/null || echo 'not yet known'
}
