# shellcheck shell=sh disable=SC2086 # lists of process IDs are split into words
# Stops a group of processes when the program that started them ends for any reason, also by SIGKILL: the pipe on stdin is
# closed then. Lines on stdin: "first|middle|last PID" (when to stop it), "gone PID" (one of the first
# or the middle that ended), "logs FOLDER" (where to keep the logs). Arguments: the group's folder, removed at the end; seconds each of the three ranks gets before SIGKILL.
folder=$1 first_seconds=$2 middle_seconds=$3 last_seconds=$4
first='' middle='' last='' logs=''
trap '' HUP INT TERM # only the program handles Ctrl-C of the terminal; this script stops when the pipe is closed

without() { # PID PID...
  gone=$1
  shift
  for pid; do [ "$pid" = "$gone" ] || echo "$pid"; done
}

while read -r verb value; do
  case $verb in
    first) first="$first $value" ;;
    middle) middle="$middle $value" ;;
    last) last="$last $value" ;;
    gone) first=$(without "$value" $first) middle=$(without "$value" $middle) ;;
    logs) logs=$value ;;
  esac
done

alive() {
  kill -0 "$1" 2>/dev/null || return 1
  # A process that ended but was not waited for yet still accepts signals.
  if [ -r "/proc/$1/stat" ] && read -r stat <"/proc/$1/stat"; then
    case $stat in *') Z '*) return 1 ;; esac
  fi
}

stop() { # SECONDS PID...
  left=$(($1 * 50))
  shift
  for pid; do kill -TERM "$pid" 2>/dev/null; done
  for pid; do
    while alive "$pid"; do
      if [ "$left" -le 0 ]; then kill -KILL "$pid" 2>/dev/null; break; fi
      left=$((left - 1))
      sleep 0.02
    done
  done
}

stop "$first_seconds" $first
stop "$middle_seconds" $middle
stop "$last_seconds" $last
if [ -n "$logs" ]; then
  mkdir -p "$logs" && cp -R "$folder/logs/." "$logs/"
fi
rm -rf "$folder"
