#!/bin/sh
# The King James text, a verse per line, from Debian's packages bible-kjv and bible-kjv-text.
# usage: text.sh FILE
set -eu
bible -f 'gen1:1-rev22:21' | sed 's/^[^ ]* //' > "${1:?usage: text.sh FILE}"
