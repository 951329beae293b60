(** * SpecTr-GBV, as published and as released, is biased

    The two rules of [spectr_verify/rules/spectr_gbv.py], and the law of their first token on one pair, computed in
    rational numbers. *)

From Coq Require Import List Arith Bool QArith.
From SpectrVerify Require Import Laws Rules Rationals.
Import ListNotations.

Section SpectrGbv.
  Context {F : Type} {N : Number F}.
  Local Open Scope number_scope.
  Variables (V L K : nat) (p q : model F).

  Let P := text_prob p.
  Let Q := text_prob q.
  Let r := capped_ratio p q.

  Fixpoint power (x : F) (n : nat) : F := match n with O => 1 | S n' => x * power x n' end.

  (** 1 - (1 - x)^K *)
  Definition any_of (x : F) : F := 1 - power (1 - x) K.

  (** C(v) = Q(v)(1 - (1 - r(v))^K) and s(v) = 1 - (1 - P(v))^K. *)
  Definition claimed (v : text) : F := Q v * any_of (r v).
  Definition shown (v : text) : F := any_of (P v).

  (** h(v), the coin of a sub-block. *)
  Definition acceptance (v : text) : F :=
    let children := sum (vocabulary V) (fun c => claimed (c :: v)) in
    let h := if length v =? L then ratio (claimed v) (shown v)
             else ratio (maximum 0 (claimed v - children)) (shown v - children) in
    maximum 0 (minimum h 1).

  (** [retry_whole]: a full block that was rejected is tried again when another draft repeats it. *)
  Variables (retry_whole : bool) (weight : F -> F -> F).

  Definition seen (before : list (list nat)) (v : text) : bool :=
    existsb (fun x => existsb (text_eqb v) (path [] x)) before && negb (retry_whole && (length v =? L)).

  (** The drafts in turn: each sub-block longer than the record, and not seen before, has its own coin; the longest
      success becomes the record. *)
  Fixpoint scan (before : list (list nat)) (record : text) (drafts : list (list nat)) : law F text :=
    match drafts with
    | [] => ret record
    | x :: drafts' =>
        let blocks := tl (path [] x) in
        let testable v := (length record <? length v) && negb (seen before v) in
        let coins := map (fun v => if testable v then acceptance v else 0) blocks in
        v <- choose (stopping_law (1 :: coins)) (record :: blocks);; scan (x :: before) v drafts'
    end.

  Definition gbv_correction (v : text) : nat -> F :=
    if length v =? L then q v else or_target V (fun c => weight (q v c) (r (c :: v))) (q v).

  Definition spectr_gbv (drafts : list (list nat)) : law F emission :=
    v <- scan [] [] drafts;; c <- categorical (vocabulary V) (gbv_correction v);; ret (v, c).
End SpectrGbv.

Section Versions.
  Context {F : Type} {N : Number F}.
  Local Open Scope number_scope.
  Variables (V L K : nat) (p q : model F).

  Definition published : list (list nat) -> law F emission :=
    spectr_gbv V L K p q false (fun target r => target * power (1 - r) K).

  Definition released : list (list nat) -> law F emission :=
    spectr_gbv V L K p q true (fun target r => target * (1 - power r K)).
End Versions.

Definition first_token (u : emission) : nat := last (snd u :: fst u) O.

Definition starts_with (c : nat) (u : emission) : bool := first_token u =? c.

(** ** The pair: two tokens, one drafted token, two drafts

    The draft model gives both tokens 1/2, the target gives them 1/3 and 2/3. *)

Definition two_tokens (first second : Q) : model Q :=
  fun _ c => match c with 0%nat => first | 1%nat => second | _ => 0%Q end.

Definition draft_model : model Q := two_tokens (1 # 2) (1 # 2).
Definition target_model : model Q := two_tokens (1 # 3) (2 # 3).

Definition starts_with_0 (rule : list (list nat) -> law Q emission) : Q :=
  probability (emitted_from 2 1 draft_model 2 rule) (starts_with 0).

Theorem published_rule_is_biased :
  let p0 := starts_with_0 (published 2 1 2 draft_model target_model) in
  p0 = 13 # 54 /\ ~ (p0 == text_prob target_model [0%nat])%Q.
Proof. split; vm_compute; [reflexivity | discriminate]. Qed.

Theorem released_rule_is_biased :
  let p0 := starts_with_0 (released 2 1 2 draft_model target_model) in
  p0 = 49 # 162 /\ ~ (p0 == text_prob target_model [0%nat])%Q.
Proof. split; vm_compute; [reflexivity | discriminate]. Qed.

(** The definitions do not lean against the rule: with a single draft the first token is right, as it should be. *)
Theorem published_rule_is_right_for_one_draft :
  probability (emitted_from 2 1 draft_model 1 (published 2 1 1 draft_model target_model)) (starts_with 0) = 1 # 3.
Proof. vm_compute. reflexivity. Qed.

(** ** The released rule with a single draft

    Two drafted tokens. The draft model writes 0 or 1, and 0 after 0; the target writes 0, then either token. Later
    rounds use the plain target, as the released code does, and the text 0, 0 comes out too often. *)

Definition draft_after_0 : model Q :=
  fun v c => match v with [0%nat] => two_tokens 1 0 v c | _ => two_tokens (1 # 2) (1 # 2) v c end.

Definition target_after_0 : model Q :=
  fun v c => match v with [] => two_tokens 1 0 v c | _ => two_tokens (1 # 2) (1 # 2) v c end.

Theorem released_rule_is_biased_for_one_draft :
  let emitted := emitted_from 2 2 draft_after_0 1 (released 2 2 1 draft_after_0 target_after_0) in
  let p00 := probability (text_after 2 2 target_after_0 emitted) (reaches [0; 0]%nat) in
  p00 = 3 # 4 /\ text_prob target_after_0 [0; 0]%nat = 1 # 2.
Proof. split; vm_compute; reflexivity. Qed.
