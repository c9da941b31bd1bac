#!/bin/sh
# Draws the gallery into notebooks-out/gallery, or into the folder given.
# ATTNVIZ names another attnviz than the one that cargo builds here.
set -eu
cd "$(dirname "$0")/.."
out=${1:-notebooks-out/gallery}
draw() { # name of the folder, then what attnviz is to draw
    folder=$out/$1
    shift
    if [ -n "${ATTNVIZ:-}" ]; then
        "$ATTNVIZ" --quiet --out "$folder" "$@"
    else
        cargo run --release --quiet --bin attnviz -- --quiet --out "$folder" "$@"
    fi
}
animal="The animal didn't cross the street because it was too"

# every head at a glance
draw grid --only grid "$animal tired"
draw dark --only grid --dark --cmap magma --no-special "$animal tired"
# the example and its control, on one scale
draw control --words --heads L3H1 --annotate --scale 0:1 "$animal tired"
draw control --words --heads L3H1 --annotate --scale 0:1 "$animal wide"
# a head with a plain pattern, as text and vector graphics
draw svg --heads L0H2 --format svg "$animal tired"
# two texts, by words, without special tokens
draw pair --heads L5H7 --words --no-special --cmap cividis \
    --pair "A man is eating food." "Someone is having lunch."
