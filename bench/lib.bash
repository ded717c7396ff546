# SPDX-License-Identifier: Apache-2.0
# What bench/run and bench/compare share: measuring, the work that is measured, and the report. Sourced.
#
# The caller says, in variables: work (a directory of its own), tools (of the built programs), tessera
# (the program), size (MiB), files, seconds, randops, tarball, rounds, round, systems (names, in order),
# dir and pid by system, stats_of by system (a mount that `tessera stats` knows), ratios (A/B, to be
# printed), patience (seconds for one measurement, or empty); and it has a function make_cold SYSTEM, after
# which reads come from the store.
shopt -s lastpipe

results=$work/results
: >"$results"
declare -A dir pid rss failed stats_of
systems=() ratios=()

say() { echo "bench: $*" >&2; }
die() { say "$*"; exit 1; }
is_in() { case ,$2, in *,"$1",*) return 0 ;; esac; return 1; }

empty_caches() {
	sync
	[ -w /proc/sys/vm/drop_caches ] && echo 3 >/proc/sys/vm/drop_caches
}

# --- measuring ---------------------------------------------------------------------------------

ticks=$(getconf CLK_TCK)

cpu_ticks() { # system; the name in parentheses may hold blanks
	[ "${pid[$1]-}" ] && sed 's/.*) //' "/proc/${pid[$1]}/stat" 2>/dev/null | awk '{ print $12 + $13 }'
}

note_rss() { # system
	local k
	k=$(awk '/^VmHWM/ { print $2 }' "/proc/${pid[$1]-none}/status" 2>/dev/null)
	[ "${k:-0}" -le "${rss[$1]}" ] || rss[$1]=$k
}

# puts put-bytes gets get-bytes of all targets
requests() { # system
	[ "${stats_of[$1]-}" ] || return 0
	"$tessera" stats "${stats_of[$1]}" 2>/dev/null | awk '
		/^store\./ && $1 ~ /\.put\.ok$/ { p += $2 }  /^store\./ && $1 ~ /\.put\.bytes$/ { pb += $2 }
		/^store\./ && $1 ~ /\.get\.ok$/ { g += $2 }  /^store\./ && $1 ~ /\.get\.bytes$/ { gb += $2 }
		END { printf "%d %.0f %d %.0f\n", p, pb, g, gb }'
}

record() { # system metric value
	printf '%s\t%s\t%s\t%s\n' "$round" "$1" "$2" "$3" >>"$results"
}

# With `patience` set a command has so many seconds; functions are run by a shell that knows them.
limited() {
	if [ -z "${patience-}" ]; then
		"$@"
	elif declare -F "$1" >/dev/null; then
		export -f fio_rate timed_entries
		timeout -k 10 "$patience" bash -c '"$@"' bash "$@"
	else
		timeout -k 10 "$patience" "$@"
	fi
}

# Runs a command that prints "name rate" lines, and records them as metrics, with what it cost:
# bytes and operations are what the command moves, for the costs per GiB and per operation;
# @SECONDS: as many operations as the rate makes in that time.
measure() { # system prefix bytes operations command…
	local s=$1 prefix=$2 bytes=$3 ops=$4 c0 c1 r0 r1 n v name='' value
	shift 4
	c0=$(cpu_ticks "$s") r0=$(requests "$s")
	if ! limited "$@" >"$work/out" 2>"$work/err"; then
		[ "${failed[$s.$prefix]-}" ] || say "$s: $prefix failed: $(tail -n 1 "$work/err")"
		failed[$s.$prefix]=1
		return 1
	fi
	c1=$(cpu_ticks "$s") r1=$(requests "$s")
	note_rss "$s"
	while read -r n v; do
		record "$s" "$prefix$n" "$v"
		name=${name:+\*} value=$v	# several rates share one cost
		name=${name:-$n}
	done <"$work/out"
	case $ops in @*) ops=$(awk -v r="$value" -v t="${ops#@}" 'BEGIN { print r * t + 1 }') ;; esac
	[ -z "$c0" ] || record "$s" "cpu:$prefix$name" "$(awk -v d=$((c1 - c0)) -v t="$ticks" \
		-v b="$bytes" -v n="$ops" 'BEGIN {
			s = d / t; v = (b > 0) ? s / (b / 2^30) : s / n * 1e6; printf "%.3f", v }')"
	[ -z "$r0" ] || record "$s" "req:$prefix$name" "$(echo "$r0 $r1" | awk -v n="$ops" \
		'{ printf "%.4f/%.0f/%.4f/%.0f", ($5 - $1) / n, ($6 - $2) / n, ($7 - $3) / n, ($8 - $4) / n }')"
}

# Prints the rate of one fio job: MiB/s, or with iops operations a second.
fio_rate() { # name bw|iops read|write options…
	local name=$1 what=$2 way=$3 line n
	shift 3
	line=$(fio --name=b --minimal --terse-version=3 --randrepeat=1 --allrandrepeat=1 \
		--invalidate=0 --fallocate=none "$@") || return 1
	line=$(grep '^3;' <<<"$line") || return 1
	case $way.$what in
	read.bw) n=7 ;; read.iops) n=8 ;; write.bw) n=48 ;; write.iops) n=49 ;;
	esac
	cut -d';' -f$n <<<"$line" |
		awk -v n="$name" -v k="$what" '{ printf "%s %.1f\n", n, k == "bw" ? $1 / 1024 : $1 }'
}

timed_entries() { # name entries command…: entries a second
	local name=$1 n=$2 t0=$EPOCHREALTIME
	shift 2
	"$@" >/dev/null || return 1
	awk -v a="$t0" -v b="$EPOCHREALTIME" -v n="$n" -v name="$name" \
		'BEGIN { printf "%s %.1f\n", name, n / (b - a) }'
}

# --- work --------------------------------------------------------------------------------------

# Only O_DIRECT says what the disk can do; raw writes go over blocks that are there already.
work_seq() { # system directory
	local s=$1 f=$2/seq io=(--ioengine=psync) bytes=$((size << 20))
	if [ "$s" = raw ]; then
		io=(--ioengine=libaio --iodepth=4 --direct=1 --overwrite=1)
	else
		rm -f "$f"
		measure "$s" seq-write- $bytes "$size" fio_rate buffered bw write "${io[@]}" \
			--filename="$f" --rw=write --bs=1M --size="${size}M"
		rm -f "$f"
		empty_caches
	fi
	measure "$s" seq-write- $bytes "$size" fio_rate durable bw write "${io[@]}" \
		--filename="$f" --rw=write --bs=1M --size="${size}M" --end_fsync=1 || return
	make_cold "$s"
	measure "$s" seq-read- $bytes "$size" fio_rate cold bw read "${io[@]}" \
		--filename="$f" --rw=read --bs=1M --size="${size}M"
	rm -f "$f"
}

work_rand() {
	local s=$1 f=$2/rand io=(--ioengine=psync) t=(--time_based --runtime="$seconds") d
	[ "$s" = raw ] && io=(--ioengine=libaio --iodepth=16 --direct=1)
	fio --name=b --minimal --filename="$f" --rw=write --bs=1M --size="${size}M" --end_fsync=1 \
		--fallocate=none >/dev/null || return
	measure "$s" rand-write- 0 "$randops" fio_rate fsync iops write "${io[@]}" --filename="$f" \
		--rw=randwrite --bs=4k --size="${size}M" --io_size=$((randops * 4))k --end_fsync=1
	for d in 1 16; do
		make_cold "$s"
		measure "$s" rand-read- 0 "@$seconds" fio_rate depth$d iops read --ioengine=libaio --direct=1 \
			--iodepth=$d --filename="$f" --rw=randread --bs=4k --size="${size}M" "${t[@]}"
	done
	rm -f "$f"
}

work_strided() {
	local s=$1 how n=$((size * 1048576 / 47008 / 2)) bytes
	[ "$s" != raw ] || return
	bytes=$((n * 2 * 47008))
	for how in easy hard; do
		# shellcheck disable=SC2046
		set -- "$s" "$2" -n $n $([ $how = easy ] && echo -e) $([ "$s" = null ] && echo -R)
		measure "$s" $how- $bytes $((n * 2)) "$tools/strided" "${@:3}" -m write "$2" || return
		make_cold "$s"
		measure "$s" $how- $bytes $((n * 2)) "$tools/strided" "${@:3}" -m read "$2" || return
	done
}

small_files() { # system directory prefix options…
	local s=$1 d=$2 prefix=$3 no=
	shift 3
	[ "$s" != raw ] || return
	[ "$s" != null ] || no=-R
	measure "$s" "$prefix" 0 "$files" "$tools/smallfiles" -n "$files" $no "$@" "$d"
}
work_small() { small_files "$1" "$2" small- -s 3901; }
work_smallsync() { small_files "$1" "$2" small-fsync- -s 3901 -y; }
work_empty() { small_files "$1" "$2" empty- -s 0; }

make_tarball() {
	[ -z "$tarball" ] || return
	tarball=$work/tree.tar
	find /usr/include /usr/share /usr/lib -xdev -type f -size -128k 2>/dev/null | sort |
		head -n $((files > 2000 ? 2200 : files)) | tar -C / -cf "$tarball" -T - 2>/dev/null
}

work_untar() {
	local s=$1 d=$2 n
	[ "$s" != raw ] || return
	make_tarball
	n=$(tar -tf "$tarball" | wc -l)
	cat "$tarball" >/dev/null
	mkdir "$d/tree"
	measure "$s" '' 0 "$n" timed_entries untar "$n" tar -C "$d/tree" --no-same-owner -xf "$tarball"
	make_cold "$s"
	[ -d "$d/tree" ] || return
	measure "$s" '' 0 "$n" timed_entries find-cold "$n" find "$d/tree" -printf '%s %m\n'
	measure "$s" '' 0 "$n" timed_entries rm-tree "$n" rm -r "$d/tree"
}

work_append() {
	local s=$1 f=$2/append n=$((files / 2)) io=(--ioengine=psync --fsync=1)
	# The disk's own: a block that is there already, and its flush.
	[ "$s" = raw ] && io=(--ioengine=psync --fdatasync=1 --direct=1 --overwrite=1)
	measure "$s" '' 0 $n fio_rate append-fsync iops write "${io[@]}" --filename="$f" --rw=write \
		--bs=4k --size=$((n * 4))k
	rm -f "$f"
}

# --- report ------------------------------------------------------------------------------------

report() {
	awk -F'\t' -v systems="${systems[*]}" -v ratios="${ratios[*]}" -v rss="$(for s in "${systems[@]}"; do
		printf '%s=%s ' "$s" "${rss[$s]}"; done)" '
	function median(key,   n, i, j, t, v) {
		n = count[key]
		for (i = 1; i <= n; i++) v[i] = val[key, i]
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
		return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
	}
	function short(x) {
		return x >= 100000 ? sprintf("%.0fk", x / 1000) : x >= 100 ? sprintf("%.0f", x) : sprintf("%.1f", x)
	}
	function ratio(a, b,   k, l) {
		k = a SUBSEP m; l = b SUBSEP m
		return count[k] && count[l] && median(l) > 0 ? sprintf("%.2f", median(k) / median(l)) : "-"
	}
	function head(text, n,   i) {
		printf "\n%-18s", text
		for (i = 1; i <= ns; i++) printf " %10.10s", sys[i]
		for (i = 1; i <= n; i++) printf "  %s", extra[i]
		printf "\n"
	}
	BEGIN { ns = split(systems, sys, " ") }
	{
		key = $2 SUBSEP $3
		val[key, ++count[key]] = $4 + 0
		raw[key] = $4
		if (!($3 in seen)) { seen[$3] = 1; order[++nm] = $3 }
	}
	END {
		nx = split(ratios, extra, " ")
		head("MiB/s or 1/s", nx)
		for (i = 1; i <= nm; i++) {
			m = order[i]
			if (m ~ /:/) continue
			printf "%-18s", m
			for (j = 1; j <= ns; j++)
				printf " %10s", count[sys[j], m] ? short(median(sys[j] SUBSEP m)) : "-"
			for (j = 1; j <= nx; j++) {
				split(extra[j], pair, "/")
				printf "  %*s", length(extra[j]), ratio(pair[1], pair[2])
			}
			printf "\n"
		}
		head("daemon CPU", 0)
		for (i = 1; i <= nm; i++) {
			m = order[i]
			if (m !~ /^cpu:/) continue
			printf "%-18s", substr(m, 5)
			for (j = 1; j <= ns; j++)
				printf " %10s", count[sys[j], m] ? sprintf("%.2f", median(sys[j] SUBSEP m)) : "-"
			print m ~ /seq|easy|hard/ ? "  s/GiB" : "  us/op"
		}
		any = 0
		for (i = 1; i <= nm; i++) if (order[i] ~ /^req:/) any = 1
		if (any) print "\nobject requests per operation: puts / bytes put / gets / bytes got (last round)"
		for (i = 1; i <= nm; i++)
			if (order[i] ~ /^req:/)
				for (j = 1; j <= ns; j++)
					if ((sys[j], order[i]) in raw)
						printf "%-18s %s\n", substr(order[i], 5), raw[sys[j], order[i]]
		printf "\npeak RSS, MiB:"
		nr = split(rss, r, " ")
		for (i = 1; i <= nr; i++) { split(r[i], kv, "="); if (kv[2] > 0) printf " %s %.0f", kv[1], kv[2] / 1024 }
		print ""
	}' "$results"
}
