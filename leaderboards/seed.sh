#!/bin/sh
# Put the project's own entries on a board: register a suite, run every prescribed seed of some
# agents, pack, check, accept. `make board` runs it from installed packages, as a closed division
# asks for.
#
#   sh leaderboards/seed.sh quickstart            about three minutes on two cores
#   sh leaderboards/seed.sh libero_object_cpu     about three quarters of an hour on two cores;
#                                                 needs l2bench-libero and l2bench-agents
#
# BOARD is the board (default: this folder), L2BENCH the command, WORK where the runs are kept.
set -eu
suite=$1
board=${BOARD:-$(dirname "$0")}
l2bench=${L2BENCH:-l2bench}
work=${WORK:-$(mktemp -d)}
today=$(date -u +%Y-%m-%d)

register() {
    if [ ! -f "$board/board.json" ]; then
        "$l2bench" leaderboard register "$suite" --board "$board" --rank-by "$1" \
            --title "L2bench leaderboards"
    elif [ ! -d "$board/suites/$suite" ]; then
        "$l2bench" leaderboard register "$suite" --board "$board" --rank-by "$1"
    else
        "$l2bench" leaderboard lock --board "$board"
    fi
}

# entry NAME WHAT OVERRIDES...: run an agent under a name and put it on the board
entry() {
    name=$1 what=$2
    shift 2
    runs="$work/$suite-$name" packed="$work/$suite-$name-submission"
    printf '# %s\n\n%s\n\nMade by the project itself, on two CPU cores, with:\n\n    l2bench run %s %s\n' \
        "$name" "$what" "$suite" "$*" > "$work/$suite-$name.md"
    "$l2bench" run "$suite" "$@" -o "$runs"
    "$l2bench" submission build "$runs" -o "$packed" --board "$board" --date "$today" \
        --submitter l2bench --name "The L2bench project" --agent-name "$name" \
        --data-disclosure "none" --compute "two CPU cores, no GPU" \
        --note "Made by the project itself on two CPU cores, to have something to compare with." \
        --readme "$work/$suite-$name.md"
    "$l2bench" leaderboard accept "$packed" --board "$board"
}

case $suite in
quickstart)
    register libero.AUC
    entry tabular "Q-learning with a table, as it comes." agent=tabular
    entry tabular-slow "The same with a learning rate of 0.05 instead of 0.3." \
        agent=tabular agent.settings.learning_rate=0.05
    entry random "Acts at random and learns nothing: the floor." agent=random
    ;;
libero_object_cpu)
    register libero.AUC
    entry bc-sequential "Behaviour cloning, one task after the other." \
        agent=agents/bc agent.settings.algorithm=sequential
    entry bc-replay "Behaviour cloning with experience replay." \
        agent=agents/bc agent.settings.algorithm=replay
    entry scripted "The scripted expert that made the demonstrations; learns nothing: the ceiling." \
        agent=libero/scripted
    entry random "Acts at random and learns nothing: the floor." agent=random
    ;;
*)
    echo "seed.sh knows quickstart and libero_object_cpu, not '$suite'" >&2
    exit 2
    ;;
esac
echo "runs kept in $work"
