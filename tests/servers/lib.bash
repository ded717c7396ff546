# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that start a server. What a server is made of is in DIR: a line "pid start
# name" for each process in DIR/pids, where `start` is the kernel's start time of the process, so
# that a number that was given to another process since is never killed.
#
# Processes stay in the caller's process group: what ends a test (a signal to its group) ends its servers.

say_why() { # exits with 1
	echo "$0: $*" >&2
	exit 1
}
# A server that this machine does not have. Loud, and told apart from failure by the exit code.
not_here() {
	echo "$0: $*" >&2
	exit 77
}
started_at() { # PID
	local s
	s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	s=${s##*) }
	# shellcheck disable=SC2086
	set -- $s
	[ "$1" != Z ] && echo "${20}"
}
alive() { # PID START
	[ "$(started_at "$1")" = "$2" ]
}
note_pid() { # PID NAME
	echo "$1 $(started_at "$1") $2" >>"$dir/pids"
}
spawn() { # NAME COMMAND…: output to DIR/NAME.log
	local name=$1
	shift
	"$@" >>"$dir/$name.log" 2>&1 </dev/null 9>&- &
	note_pid $! "$name"
	disown
}
signal_all() { # SIGNAL
	local pid start name
	[ -e "$dir/pids" ] || return 0
	while read -r pid start name; do
		! alive "$pid" "$start" || kill "-$1" "$pid" 2>/dev/null
	# The last that was started goes first: it may need the others to tell the truth.
	done < <(tac "$dir/pids")
}
all_alive() {
	local pid start name
	while read -r pid start name; do
		alive "$pid" "$start" || return
	done <"$dir/pids"
}
any_alive() {
	local pid start name
	[ -e "$dir/pids" ] || return 1
	while read -r pid start name; do
		! alive "$pid" "$start" || return 0
	done <"$dir/pids"
	return 1
}
kill_all() {
	local i
	signal_all KILL
	for ((i = 0; i < 500; i++)); do
		any_alive || break
		sleep 0.02
	done
	rm -f "$dir/pids"
}
# until_ok SECONDS COMMAND…: not longer than the processes live.
until_ok() {
	local n=$(($1 * 20))
	shift
	while ! "$@" 2>/dev/null; do
		n=$((n - 1))
		[ $n -gt 0 ] && all_alive || return 1
		sleep 0.05
	done
}
listens() { # PORT
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}
# A port that nobody listens on, below those that outgoing connections use.
free_port() {
	local p
	while :; do
		p=$((10000 + (RANDOM * 32768 + RANDOM) % 20000))
		listens $p || break
	done
	echo $p
}
# The commands that all have. A script defines boot() and describe(), which prints the assignments.
server_main() { # COMMAND DIR
	local usage="usage: $0 start|kill|stop|pause|cont DIR"
	[ $# = 2 ] || say_why "$usage"
	mkdir -p "$2" || exit
	dir=$(cd "$2" && pwd) || exit
	exec 9>"$dir/.lock"
	flock 9
	case $1 in
	start)
		! any_alive || say_why "$dir: already running"
		rm -f "$dir/pids"
		trap 'rc=$?; [ $rc = 0 ] || kill_all' EXIT
		boot || exit
		describe >"$dir/env.new" && mv "$dir/env.new" "$dir/env" && cat "$dir/env"
		;;
	kill) kill_all ;;
	stop) kill_all && rm -rf "$dir" ;;
	pause) signal_all STOP ;;
	cont) signal_all CONT ;;
	*) say_why "$usage" ;;
	esac
}
