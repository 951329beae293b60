(** * The rules

    Token verification, block verification and the block race, which are [token.py], [block.py] and [block_race.py]
    in [spectr_verify/rules]. [p] is the draft model, [q] the target, [L] the length of a draft, [V] the size of the
    vocabulary. Nothing is proved in this file. *)

From Coq Require Import List Arith Bool.
From SpectrVerify Require Import Laws.
Import ListNotations.

(** What a rule emits: the accepted text [v] and one more token [c]. *)
Definition emission : Type := (text * nat)%type.

Section Rules.
  Context {F : Type} {N : Number F}.
  Local Open Scope number_scope.
  Variables (V L : nat) (p q : model F).

  Let P := text_prob p.
  Let Q := text_prob q.

  (** The text of a round: one draft, what the rule emits, and plain target text up to [L + 1] tokens in all. *)
  Definition text_after (e : law F emission) : law F text :=
    u <- e;; follow V q (L - length (fst u)) (snd u :: fst u).

  Definition emitted (rule : list nat -> law F emission) : law F emission :=
    x <- draft V p L [];; rule x.

  (** ** What the rules share *)

  (** (w q - p)+ *)
  Definition residual (w : F) (v : text) (c : nat) : F := maximum 0 (w * q v c - p v c).

  (** Where nothing is left of the target, the target itself: that is where no draft ever stops. *)
  Definition or_target (weight target : nat -> F) : nat -> F :=
    if existsb (fun c => positive (weight c)) (vocabulary V) then weight else target.

  Definition correction (w : F) (v : text) : nat -> F :=
    if length v =? L then q v else or_target (residual w v) (q v).

  (** The accepted text [v], and a token from what is left, or from the target after a whole draft. *)
  Definition emit (w : F) (v : text) : law F emission :=
    c <- categorical (vocabulary V) (correction w v);; ret (v, c).

  (** ** Token verification *)

  Fixpoint acceptances (v : text) (x : list nat) : list F :=
    match x with
    | [] => []
    | c :: x' => minimum 1 (ratio (q v c) (p v c)) :: acceptances (c :: v) x'
    end.

  (** P(tau = i) from the acceptances; [reached] is the probability of getting here. *)
  Fixpoint stop_at_first_rejection (reached : F) (accept : list F) : list F :=
    match accept with
    | [] => [reached]
    | a :: accept' => reached * (1 - a) :: stop_at_first_rejection (reached * a) accept'
    end.

  (** Accept token after token with min(1, q/p); at the first rejection correct from (q - p)+. *)
  Definition token (x : list nat) : law F emission :=
    v <- choose (stop_at_first_rejection 1 (acceptances [] x)) (path [] x);; emit 1 v.

  (** ** Block verification *)

  (** W(v), the running weight. *)
  Fixpoint running_weight (v : text) : F :=
    match v with
    | [] => 1
    | c :: v' => minimum 1 (ratio (running_weight v' * q v' c) (p v' c))
    end.

  (** A(v), what is left of the target: the sum of (W q - p)+. *)
  Definition left_over (v : text) : F := sum (vocabulary V) (residual (running_weight v) v).

  (** h(v) = A / (A + 1 - W) *)
  Definition success (v : text) : F :=
    let w := running_weight v in
    if 1 <=? w then 1 else left_over v / (left_over v + (1 - w)).

  (** The coins of the prefixes of a draft, the shortest first; that of the whole draft is W. *)
  Fixpoint block_success (v : text) (x : list nat) : list F :=
    match x with
    | [] => [running_weight v]
    | c :: x' => success v :: block_success (c :: v) x'
    end.

  (** P(the last success is number i) of independent coins. *)
  Fixpoint stopping_law (coins : list F) : list F :=
    match coins with
    | [] => []
    | h :: coins' => h * product (map (fun h' => 1 - h') coins') :: stopping_law coins'
    end.

  (** Keep the longest prefix whose own coin succeeds, then a token from (W q - p)+. *)
  Definition block (x : list nat) : law F emission :=
    v <- choose (stopping_law (block_success [] x)) (path [] x);; emit (running_weight v) v.

  (** r(v) = min(P(v)/Q(v), 1), and rho(v), the smallest r over the prefixes of v. *)
  Definition capped_ratio (v : text) : F := if positive (Q v) then minimum (P v / Q v) 1 else 1.

  Fixpoint rho (v : text) : F :=
    match v with
    | [] => 1
    | _ :: v' => minimum (rho v') (capped_ratio v)
    end.

  (** ** The block race

      What is accepted, [v], and the next token [c] have a score uniform on (rho(vc), rho(v)], from 0 after a whole
      draft; the smallest of K scores wins. [smallest] gives, for K intervals, the probabilities that the uniform
      number on each is the smallest. *)

  Definition high (u : emission) : F := rho (fst u).
  Definition low (u : emission) : F := if length (fst u) =? L then 0 else rho (snd u :: fst u).

  Definition block_race (smallest : list (F * F) -> list F) (drafts : list (list nat)) : law F emission :=
    us <- independent (map block drafts);; combine (smallest (map (fun u => (low u, high u)) us)) us.

  Definition emitted_from (K : nat) (rule : list (list nat) -> law F emission) : law F emission :=
    xs <- independent (repeat (draft V p L []) K);; rule xs.

  (** ** The block race by cells

      The same race with finitely many scores: a score is known up to the cell in which it lies of a grid
      0 = mark 0 <= mark 1 <= .. <= mark cells = 1. Cell number j is (mark j, mark (j+1)]. On a grid that has both ends
      of an interval among its marks, a uniform score on the interval lies in each cell inside with probability
      width of the cell / width of the interval. *)

  Variables (cells : nat) (mark : nat -> F).

  Definition width_within (low high : F) (j : nat) : F :=
    if (low <=? mark j) && (mark (S j) <=? high) then mark (S j) - mark j else 0.

  Definition uniform_score (low high : F) : law F nat := categorical (seq 0 cells) (width_within low high).

  (** Block verification of one draft, and the score of what comes out. *)
  Definition entry (x : list nat) : law F (emission * nat) :=
    u <- block x;; j <- uniform_score (low u) (high u);; ret (u, j).

  (** Who wins, as weights from the scores alone. *)
  Definition race {A} (select : list nat -> list F) (entries : list (A * nat)) : law F A :=
    e <- choose (select (map snd entries)) entries;; ret (fst e).

  Definition cell_race (select : list nat -> list F) (drafts : list (list nat)) : law F emission :=
    entries <- independent (map entry drafts);; race select entries.

  (** Scores in one cell are equally likely to be the smallest: what lies within the cell is uniform. *)
  Definition fair_smallest (scores : list nat) : list F :=
    map (fun j => if forallb (Nat.leb j) scores then 1 else 0) scores.

  (** Of the smallest scores the first. *)
  Fixpoint first_smallest (scores : list nat) : list F :=
    match scores with
    | [] => []
    | j :: scores' =>
        if forallb (Nat.leb j) scores' then 1 :: map (fun _ => 0) scores' else 0 :: first_smallest scores'
    end.
End Rules.
