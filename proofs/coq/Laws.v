(** * Finite laws, texts and models

    Everything here is written for any type of numbers, so that one definition serves twice: over the reals, where
    the theorems are proved, and over the rationals, where the same rules are computed. There is nothing to prove in
    this file.

    A text is a list of tokens with the newest first: the text [v] followed by the token [c] is [c :: v]. A draft is
    a list in the order of reading: its head is the token that comes next. *)

From Coq Require Import List Arith Bool.
Import ListNotations.

Class Number (F : Type) := {
  zero : F;
  one : F;
  add : F -> F -> F;
  sub : F -> F -> F;
  mul : F -> F -> F;
  div : F -> F -> F;
  leb : F -> F -> bool
}.

Declare Scope number_scope.
Delimit Scope number_scope with num.
Infix "+" := add : number_scope.
Infix "-" := sub : number_scope.
Infix "*" := mul : number_scope.
Infix "/" := div : number_scope.
Infix "<=?" := leb : number_scope.
Notation "0" := zero : number_scope.
Notation "1" := one : number_scope.

Definition text := list nat.

Definition text_eqb (y x : text) : bool := if list_eq_dec Nat.eq_dec x y then true else false.

(** The text [u] goes on from [z] or is [z]: its oldest tokens are those of [z]. *)
Definition reaches (z u : text) : bool := text_eqb z (skipn (length u - length z) u).

(** The texts that one passes when a draft [x] is appended to [v] token by token, [v] and the last one included. *)
Fixpoint path (v : text) (x : list nat) : list text :=
  v :: match x with [] => [] | c :: x' => path (c :: v) x' end.

Section Laws.
  Context {F : Type} {N : Number F}.
  Local Open Scope number_scope.

  Definition sum {A} (l : list A) (f : A -> F) : F := fold_right (fun a s => f a + s) 0 l.
  Definition product (l : list F) : F := fold_right mul 1 l.
  Definition minimum (x y : F) : F := if x <=? y then x else y.
  Definition maximum (x y : F) : F := if x <=? y then y else x.
  Definition positive (x : F) : bool := negb (x <=? 0).

  (** 0 where the numerator is 0, as in the code. *)
  Definition ratio (x y : F) : F := if positive x then x / y else 0.

  (** A finite law: outcomes with their probabilities. *)
  Definition law (A : Type) : Type := list (F * A).

  Definition mean {A} (d : law A) (f : A -> F) : F := sum d (fun wa => fst wa * f (snd wa)).

  Definition probability {A} (d : law A) (event : A -> bool) : F := mean d (fun a => if event a then 1 else 0).

  Definition ret {A} (a : A) : law A := [(1, a)].

  Definition bind {A B} (d : law A) (k : A -> law B) : law B :=
    flat_map (fun wa => map (fun wb => (fst wa * fst wb, snd wb)) (k (snd wa))) d.

  (** One of [l] in proportion to weights that need not sum to 1. *)
  Definition categorical {A} (l : list A) (weight : A -> F) : law A :=
    map (fun a => (weight a / sum l weight, a)) l.

  (** The same with the weights in a list beside [l]. *)
  Definition choose {A} (weights : list F) (l : list A) : law A :=
    bind (categorical (combine weights l) fst) (fun wa => ret (snd wa)).

  (** Independent draws, one from each law. *)
  Fixpoint independent {A} (ds : list (law A)) : law (list A) :=
    match ds with
    | [] => ret []
    | d :: ds' => bind d (fun a => bind (independent ds') (fun l => ret (a :: l)))
    end.

  (** A model gives every text the law of the token that follows; the vocabulary is 0 .. V-1. *)
  Definition model : Type := text -> nat -> F.

  Variable V : nat.

  Definition vocabulary : list nat := seq 0 V.

  (** [n] more tokens after [v], one after the other. *)
  Fixpoint follow (m : model) (n : nat) (v : text) : law text :=
    match n with
    | O => ret v
    | S n' => bind (categorical vocabulary (m v)) (fun c => follow m n' (c :: v))
    end.

  (** A draft of [n] tokens after [v]. *)
  Fixpoint draft (m : model) (n : nat) (v : text) : law (list nat) :=
    match n with
    | O => ret []
    | S n' => bind (categorical vocabulary (m v)) (fun c => bind (draft m n' (c :: v)) (fun x => ret (c :: x)))
    end.

  (** P(v) or Q(v): the probability of a whole text. *)
  Fixpoint text_prob (m : model) (v : text) : F :=
    match v with
    | [] => 1
    | c :: v' => text_prob m v' * m v' c
    end.
End Laws.

Arguments law F A : clear implicits.
Arguments model F : clear implicits.

Notation "x <- d ;; k" := (bind d (fun x => k)) (at level 100, d at next level, right associativity).
