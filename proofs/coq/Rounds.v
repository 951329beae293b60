(** * One round is enough: rounds compose to text of any length

    Each round starts after the text so far, with both models as they are there. If every round is lossless, the
    first [N] tokens of the text that [N] rounds write, each at least one token, follow the target. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means Token Block Uniform BlockRace Emissions.
Import ListNotations.
Open Scope R_scope.

(** A model as it is after the text [v]. *)
Definition after (m : model R) (v : text) : model R := fun u => m (u ++ v).

(** The first [N] tokens of a text. *)
Definition first_tokens (N : nat) (v : text) : text := skipn (length v - N) v.

Section Follow.
  Variables (V : nat) (q : model R).
  Hypothesis Hq : is_model V q.

  Lemma after_is_model v : is_model V (after q v).
  Proof. intros u. apply Hq. Qed.

  Lemma follow_split a b v f :
    mean (follow V q a v) (fun y => mean (follow V q b y) f) = mean (follow V q (a + b) v) f.
  Proof.
    revert v. induction a as [| a IH]; intros v; [cbn [follow Nat.add]; now rewrite mean_ret |].
    cbn [Nat.add]. rewrite !(mean_follow_step V q Hq). apply sum_ext. intros c _. now rewrite IH.
  Qed.

  Lemma follow_after n w v f :
    mean (follow V (after q v) n w) (fun y => f (y ++ v)) = mean (follow V q n (w ++ v)) f.
  Proof.
    revert w. induction n as [| n IH]; intros w; [cbn [follow]; now rewrite !mean_ret |].
    rewrite (mean_follow_step V (after q v) (after_is_model v)), (mean_follow_step V q Hq).
    apply sum_ext. intros c _. now rewrite IH.
  Qed.

  Lemma first_tokens_kept N s v : (N <= length v)%nat -> first_tokens N (s ++ v) = first_tokens N v.
  Proof.
    intros H. unfold first_tokens. rewrite app_length, skipn_app, skipn_all2 by lia. simpl. f_equal. lia.
  Qed.

  Lemma follow_first_tokens n N v f : (N <= length v)%nat ->
    mean (follow V q n v) (fun y => f (first_tokens N y)) = f (first_tokens N v).
  Proof.
    intros H. rewrite (mean_follow_ext V q Hq n v _ (fun _ => f (first_tokens N v))).
    - apply mean_constant, (follow_total V q Hq).
    - intros s _. now rewrite first_tokens_kept.
  Qed.
End Follow.

Section Rounds.
  Variables (V L : nat) (q : model R).
  Hypothesis Hq : is_model V q.

  (** The law of the emission of a round that starts after [v]. *)
  Variable round : text -> law R emission.

  Definition is_lossless_round : Prop :=
    forall v, outcomes (fits V L) (round v)
      /\ forall f, mean (text_after V L (after q v) (round v)) f = mean (follow V (after q v) (S L) []) f.

  Fixpoint rounds (n : nat) (v : text) : law R text :=
    match n with
    | O => ret v
    | S n' => u <- round v;; rounds n' (snd u :: fst u ++ v)
    end.

  Hypothesis Hround : is_lossless_round.

  Lemma rounds_outcomes n v :
    outcomes (fun y => (length v + n <= length y)%nat) (rounds n v).
  Proof.
    revert v. induction n as [| n IH]; intros v; cbn [rounds]; [apply outcomes_ret; lia |].
    eapply outcomes_bind; [apply Hround |]. intros u _ w y Hin.
    destruct (IH _ w y Hin) as [Hw Hl]. split; [exact Hw |]. simpl in Hl. rewrite app_length in Hl. lia.
  Qed.

  (** The text after [n] rounds, completed by the plain target to [M] tokens, follows the target. *)
  Lemma rounds_completed n v M f : (length v + n * S L <= M)%nat ->
    mean (rounds n v) (fun y => mean (follow V q (M - length y) y) f) = mean (follow V q (M - length v) v) f.
  Proof.
    revert v. induction n as [| n IH]; intros v HM; cbn [rounds]; [now rewrite mean_ret |].
    rewrite mean_bind. destruct (Hround v) as [Hout Hmeans].
    (* what follows the round is a completion from where it ends, and the round's own text follows the target *)
    set (g := fun y => mean (follow V q (M - length v - S L) (y ++ v)) f).
    transitivity (mean (round v) (completed V L (after q v) g)).
    - apply (mean_ext_outcomes _ _ _ _ Hout). intros u [Hu _]. cbn [Nat.mul] in HM.
      rewrite IH by (simpl; rewrite app_length; lia). unfold completed, g.
      rewrite (follow_after V q Hq _ _ v (fun y => mean (follow V q (M - length v - S L) y) f)).
      rewrite (follow_split V q Hq). simpl app. simpl length. rewrite app_length. do 2 f_equal. lia.
    - rewrite <- mean_text_after, Hmeans. unfold g.
      rewrite (follow_after V q Hq _ [] v (fun y => mean (follow V q (M - length v - S L) y) f)).
      rewrite (follow_split V q Hq). simpl app. do 2 f_equal. cbn [Nat.mul] in HM. lia.
  Qed.

  Lemma rounds_means N f :
    mean (rounds N []) (fun y => f (first_tokens N y)) = mean (follow V q N []) f.
  Proof.
    pose proof (rounds_completed N [] (N * S L) (fun y => f (first_tokens N y)) (le_n _)) as H.
    simpl length in H. rewrite Nat.sub_0_r in H.
    transitivity (mean (rounds N []) (fun y =>
      mean (follow V q (N * S L - length y) y) (fun y => f (first_tokens N y)))).
    - apply (mean_ext_outcomes _ _ _ _ (rounds_outcomes N [])). intros y Hy. simpl in Hy.
      symmetry. apply (follow_first_tokens V q Hq). exact Hy.
    - rewrite H. replace (N * S L)%nat with (N + N * L)%nat by lia. rewrite <- (follow_split V q Hq).
      apply (mean_follow_ext V q Hq). intros s Hs. rewrite app_nil_r.
      rewrite (follow_first_tokens V q Hq) by lia. unfold first_tokens. now rewrite Hs, Nat.sub_diag.
  Qed.

  (** Text of [N] tokens, written in as many rounds as it takes. *)
  Definition written (N : nat) : law R text := y <- rounds N [];; ret (first_tokens N y).

  Lemma written_follows_the_target y : vocabulary_text V y ->
    probability (written (length y)) (text_eqb y) = text_prob q y.
  Proof.
    intros Hy. rewrite <- (autoregression V q Hq y Hy). unfold probability, written.
    rewrite mean_bind, <- (rounds_means (length y)). apply mean_ext. intros z. now rewrite mean_ret.
  Qed.
End Rounds.

(** ** Text of any length, rule by rule *)

Section Theorems.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  Theorem token_writes_as_the_target y : vocabulary_text V y ->
    probability (written (fun v => emitted V L (after p v) (token V L (after p v) (after q v))) (length y)) (text_eqb y)
    = text_prob q y.
  Proof.
    apply (written_follows_the_target V L q Hq). intros v.
    pose proof (after_is_model V p Hp v). pose proof (after_is_model V q Hq v). split.
    - now apply token_emits_a_law.
    - intros f. now apply token_means.
  Qed.

  Theorem block_writes_as_the_target y : vocabulary_text V y ->
    probability (written (fun v => emitted V L (after p v) (block V L (after p v) (after q v))) (length y)) (text_eqb y)
    = text_prob q y.
  Proof.
    apply (written_follows_the_target V L q Hq). intros v.
    pose proof (after_is_model V p Hp v). pose proof (after_is_model V q Hq v). split.
    - now apply block_emits_a_law.
    - intros f. now apply block_means.
  Qed.

  Theorem block_race_writes_as_the_target K y : (0 < K)%nat -> vocabulary_text V y ->
    let round v := emitted_from V L (after p v) K (block_race V L (after p v) (after q v) smallest_uniform) in
    probability (written round (length y)) (text_eqb y) = text_prob q y.
  Proof.
    intros HK Hy round. apply (written_follows_the_target V L q Hq); [| exact Hy]. intros v.
    pose proof (after_is_model V p Hp v). pose proof (after_is_model V q Hq v). split.
    - now apply block_race_emits_a_law.
    - intros f. now apply block_race_means.
  Qed.
End Theorems.
