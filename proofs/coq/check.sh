#!/usr/bin/env bash
# Compiles every proof in a temporary folder and prints what each theorem assumes.
# Fails on an unfinished proof, and on an assumption beyond those that Coq's real analysis is built on.
# usage: check.sh [FOLDER of .v files, this one if none is given]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sources=$(cd "${1:-$here}" && pwd)
if ! command -v coqc > /dev/null; then
    echo "check.sh: coqc is not here: apt-get install --no-install-recommends coq" >&2
    exit 2
fi

# The last two come with Riemann's integral of the standard library, the others with its real numbers.
allowed='ClassicalDedekindReals.sig_forall_dec
FunctionalExtensionality.functional_extensionality_dep
ClassicalDedekindReals.sig_not_dec
Classical_Prop.classic'

if ! compgen -G "$sources/*.v" > /dev/null; then
    echo "check.sh: $sources has no .v files" >&2
    exit 2
fi

if grep -nwE 'Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|bypass_check|Unset' "$sources"/*.v; then
    echo "check.sh: the lines above leave something unproved; nothing here may" >&2
    exit 1
fi

# What follows one of these may be forgotten again, or has a name within a module that would not be asked about.
if grep -nwE 'Abort|Fail|Succeed|Module|Reset|Undo|Back|Restart' "$sources"/*.v; then
    echo "check.sh: the lines above: every theorem is stated once, at the top level of its file, and kept" >&2
    exit 1
fi

# Another word for a headline, or one that is not alone at the start of its line, would not be asked about below.
if grep -nwE 'Corollary|Proposition|Fact|Remark|Property' "$sources"/*.v; then
    echo "check.sh: the lines above: a headline is called Theorem, a step Lemma" >&2
    exit 1
fi
if grep -Hnw Theorem "$sources"/*.v | grep -vE '^[^:]+:[0-9]+: *Theorem +[A-Za-z0-9_'"\'"']+([ :(]|$)'; then
    echo "check.sh: the lines above: each headline starts a line of its own, 'Theorem name'" >&2
    exit 1
fi
# A file named as one of the library would pass its assumptions off as the library's.
for file in "$sources"/*.v; do
    if [ -n "$(find "$(coqc -where)/theories" -name "$(basename "$file" .v).vo" -print -quit)" ]; then
        echo "check.sh: $file has the name of a file of Coq's library" >&2
        exit 1
    fi
done

build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp "$sources"/*.v "$build"
cd "$build"

order=$(coqdep -Q . SpectrVerify -sort ./*.v)
for file in $order; do
    echo "compiling ${file#./}" >&2
    coqc -Q . SpectrVerify "$file"
done

# Every statement called Theorem is a headline; the steps towards them are called Lemma.
for file in ./*.v; do
    name=$(basename "$file" .v)
    echo "From SpectrVerify Require $name."
    ask="Goal True. idtac \"theorem $name.\1\". Abort. Print Assumptions $name.\1."
    sed -nE "s/^ *Theorem +([A-Za-z0-9_']+).*/$ask/p" "$file"
done > questions
mv questions questions.v
coqc -Q . SpectrVerify questions.v > printed
cat printed

headlines=$(grep -c '^theorem ' printed) || { echo "check.sh: $sources has no Theorem" >&2; exit 1; }
if [ "$headlines" -ne "$(grep -owh Theorem ./*.v | wc -l)" ]; then
    echo "check.sh: $headlines headlines were asked about, and the word Theorem stands there more often" >&2
    exit 1
fi
# What the theorems say, as Coq prints it: a headline that says less than it did is seen.
if [ -e "$sources/statements.txt" ]; then
    { echo 'From Coq Require Import List Reals QArith. Import ListNotations. Open Scope Q_scope.'
      sed '/^Goal /d' questions.v
      sed -nE 's/^Goal .*theorem ([^"]+)".*/Check \1./p' questions.v; } > statements.v
    coqc -Q . SpectrVerify statements.v > statements
    if ! diff -u --label statements.txt --label now "$sources/statements.txt" statements; then
        echo "check.sh: the theorems do not say what statements.txt has; if that is meant, apply the lines above to it" >&2
        exit 1
    fi
fi
# The rest that starts a line is the name of an assumption, whose statement is indented.
sed -E '/^( |theorem |Axioms:$|Closed under the global context$)/d' printed | cut -d ' ' -f 1 | sort -u > used
if others=$(grep -vxF "$allowed" used); then
    echo "check.sh: assumed without proof:" $others >&2
    exit 1
fi
echo "$headlines theorems, all proved; assumed: $(if [ -s used ]; then paste -sd ' ' used; else echo nothing; fi)"
