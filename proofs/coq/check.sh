#!/usr/bin/env bash
# Compiles every proof in a temporary folder and prints what each theorem assumes.
# Fails on an unfinished proof, and on an assumption beyond those that Coq's real analysis is built on.
# usage: check.sh [FOLDER of .v files, this one if none is given]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sources=${1:-$here}

# The last two come with Riemann's integral of the standard library, the others with its real numbers.
allowed='ClassicalDedekindReals.sig_forall_dec
FunctionalExtensionality.functional_extensionality_dep
ClassicalDedekindReals.sig_not_dec
Classical_Prop.classic'

if grep -nwE 'Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|bypass_check|Unset' "$sources"/*.v; then
    echo "check.sh: the lines above leave something unproved; nothing here may" >&2
    exit 1
fi

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp "$sources"/*.v "$build"
cd "$build"

for file in $(coqdep -Q . SpectrVerify -sort ./*.v); do
    coqc -Q . SpectrVerify "$file"
done

# Every statement called Theorem is a headline; the steps towards them are called Lemma.
for file in ./*.v; do
    name=$(basename "$file" .v)
    echo "From SpectrVerify Require $name."
    ask="Goal True. idtac \"theorem $name.\1\". Abort. Print Assumptions $name.\1."
    sed -nE "s/^ *Theorem +([A-Za-z0-9_]+).*/$ask/p" "$file"
done > questions
mv questions questions.v
coqc -Q . SpectrVerify questions.v > printed
cat printed

headlines=$(grep -c '^theorem ' printed) || { echo "check.sh: $sources has no Theorem" >&2; exit 1; }
# The rest that starts a line is the name of an assumption, whose statement is indented.
sed -E '/^( |theorem |Axioms:$|Closed under the global context$)/d' printed | cut -d ' ' -f 1 | sort -u > used
if others=$(grep -vxF "$allowed" used); then
    echo "check.sh: assumed without proof:" $others >&2
    exit 1
fi
echo "$headlines theorems, all proved; assumed: $(if [ -s used ]; then paste -sd ' ' used; else echo nothing; fi)"
