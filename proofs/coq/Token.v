(** * Token verification is lossless

    The idea: draw the draft token by token. With probability p(c) min(1, q(c)/p(c)) = min(p(c), q(c)) token [c] is
    drafted and accepted; a rejection, of probability sum (q - p)+, brings [c] with (q - p)+ normalised. Together
    that is q(c), and induction on what is left of the draft does the rest. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means.
Import ListNotations.
Open Scope R_scope.

Section Emission.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  (** The mean of [f] over the text that an emission is completed to. *)
  Definition completed (f : text -> R) (u : emission) : R :=
    mean (follow V q (L - length (fst u)) (snd u :: fst u)) f.

  Lemma mean_text_after e f : mean (text_after V L q e) f = mean e (completed f).
  Proof. unfold text_after. now rewrite mean_bind. Qed.

  Lemma residual_spec w v c : residual p q w v c = w * q v c - p v c /\ p v c <= w * q v c
    \/ residual p q w v c = 0 /\ w * q v c < p v c.
  Proof.
    unfold residual. destruct (maximum_spec 0 (w * q v c - p v c)) as [[H E] | [H E]]; reals; rewrite E;
      [left | right]; split; lra.
  Qed.

  Lemma residual_nonneg w v c : 0 <= residual p q w v c.
  Proof. destruct (residual_spec w v c) as [[-> H] | [-> H]]; lra. Qed.

  (** min(p, w q) and the residual make w q. *)
  Lemma drafted_and_accepted w v c : 0 <= w ->
    p v c * minimum 1 (ratio (w * q v c) (p v c)) = w * q v c - residual p q w v c.
  Proof.
    intros Hw. pose proof (next_nonneg V p Hp v c) as Hpc. pose proof (next_nonneg V q Hq v c) as Hqc.
    assert (Hwq : 0 <= w * q v c) by now apply Rmult_le_pos.
    destruct (Req_dec (p v c) 0) as [H0 | H0].
    { destruct (residual_spec w v c) as [[-> H] | [-> H]]; rewrite H0 in *; lra. }
    assert (Hr : ratio (w * q v c) (p v c) = w * q v c / p v c).
    { destruct (ratio_spec (w * q v c) (p v c)) as [[H ->] | [H ->]]; [reflexivity |].
      replace (w * q v c) with 0 by lra. field. exact H0. }
    rewrite Hr. assert (Hm : p v c * (w * q v c / p v c) = w * q v c) by now field.
    destruct (minimum_spec 1 (w * q v c / p v c)) as [[H ->] | [H ->]];
      apply (Rmult_le_compat_l (p v c)) in H || apply (Rmult_lt_compat_l (p v c)) in H; try lra; rewrite Hm in *;
      destruct (residual_spec w v c) as [[-> H'] | [-> H']]; lra.
  Qed.

  Lemma mean_emit_whole w (v : text) G : length v = L ->
    mean (emit V L p q w v) G = sum (vocabulary V) (fun c => q v c * G (v, c)).
  Proof.
    intros H. unfold emit, correction. rewrite (proj2 (Nat.eqb_eq _ _) H), mean_bind, (mean_next V) by exact Hq.
    apply sum_ext. intros. now rewrite mean_ret.
  Qed.

  (** Where something is left of the target, the correction is proportional to it; where nothing is, neither side
      counts. *)
  Lemma mean_emit_inner w (v : text) G : length v <> L ->
    sum (vocabulary V) (residual p q w v) * mean (emit V L p q w v) G
    = sum (vocabulary V) (fun c => residual p q w v c * G (v, c)).
  Proof.
    intros H. unfold emit, correction, or_target. rewrite (proj2 (Nat.eqb_neq _ _) H), mean_bind.
    destruct (existsb _ _) eqn:E.
    - apply existsb_exists in E as (c & Hc & E).
      destruct (positive_spec (residual p q w v c)) as [[Hpos _] | [_ E']]; [| congruence].
      rewrite categorical_total.
      + apply sum_ext. intros. now rewrite mean_ret.
      + pose proof (sum_member (vocabulary V) (residual p q w v) c (fun b _ => residual_nonneg w v b) Hc). lra.
    - assert (Hz : forall c, In c (vocabulary V) -> residual p q w v c = 0).
      { intros c Hc. destruct (positive_spec (residual p q w v c)) as [[_ E'] | [H' _]].
        - assert (existsb (fun c => positive (residual p q w v c)) (vocabulary V) = true)
            by (apply existsb_exists; eauto). congruence.
        - pose proof (residual_nonneg w v c). lra. }
      rewrite (sum_ext _ (residual p q w v) (fun _ => 0)), sum_zero by exact Hz.
      rewrite (sum_ext _ _ (fun _ => 0)), sum_zero by (intros; rewrite Hz by assumption; ring). ring.
  Qed.
End Emission.

Section Token.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  Lemma stop_total reached v x :
    sum (combine (stop_at_first_rejection reached (acceptances p q v x)) (path v x)) fst = reached.
  Proof.
    revert reached v. induction x as [| c x IH]; intros reached v; simpl; rewrite sum_cons.
    - rewrite sum_nil. simpl. ring.
    - rewrite IH. simpl. reals. ring.
  Qed.

  Lemma token_from f n v reached : (length v + n = L)%nat ->
    mean (draft V p n v) (fun x =>
      sum (combine (stop_at_first_rejection reached (acceptances p q v x)) (path v x))
          (fun wa => fst wa * mean (emit V L p q 1 (snd wa)) (completed V L q f)))
    = reached * mean (follow V q (S n) v) f.
  Proof.
    revert v reached. induction n as [| n IH]; intros v reached Hn.
    - cbn [draft]. rewrite mean_ret. simpl combine. rewrite sum_cons, sum_nil. cbn [fst snd].
      rewrite mean_emit_whole, (mean_follow_step V q Hq) by (auto; lia). unfold completed. cbn [fst snd].
      replace (L - length v)%nat with 0%nat by lia. ring.
    - set (g := mean (emit V L p q 1 v) (completed V L q f)).
      rewrite (mean_draft_step V p Hp), (mean_follow_step V q Hq (S n)), <- sum_scale.
      pose (accept c := minimum 1 (ratio (1 * q v c) (p v c))).
      rewrite (sum_ext _ _ (fun c =>
        reached * g * (p v c - p v c * accept c)
        + reached * (p v c * accept c * mean (follow V q (S n) (c :: v)) f))).
      2:{ intros c _. cbn [acceptances path stop_at_first_rejection combine].
          assert (Ha : minimum one (ratio (q v c) (p v c)) = accept c)
            by (unfold accept; now rewrite Rmult_1_l).
          rewrite Ha.
          rewrite (mean_ext _ _ (fun x => reached * (1 - accept c) * g
            + sum (combine (stop_at_first_rejection (reached * accept c) (acceptances p q (c :: v) x))
                           (path (c :: v) x))
                  (fun wa => fst wa * mean (emit V L p q 1 (snd wa)) (completed V L q f)))).
          - rewrite mean_plus, (mean_constant _ _ (draft_total V p Hp _ _)), IH by (simpl; lia). ring.
          - intros x. now rewrite sum_cons. }
      rewrite sum_plus, sum_scale.
      assert (Hg : sum (vocabulary V) (fun c => p v c - p v c * accept c) * g
                   = sum (vocabulary V) (fun c => residual p q 1 v c * completed V L q f (v, c))).
      { rewrite <- (mean_emit_inner V L p q 1 v) by lia. unfold g. f_equal.
        rewrite (sum_ext _ _ (fun c => p v c - (q v c - residual p q 1 v c))).
        - rewrite sum_minus, sum_minus, !(next_total V) by assumption. ring.
        - intros c _. unfold accept. rewrite (drafted_and_accepted V) by (auto; lra). ring. }
      replace (reached * g * _)
        with (reached * (sum (vocabulary V) (fun c => p v c - p v c * accept c) * g)) by ring.
      rewrite Hg, !sum_scale, <- Rmult_plus_distr_l, <- sum_plus. f_equal.
      apply sum_ext. intros c _. unfold completed. cbn [fst snd].
      replace (L - length v)%nat with (S n) by lia.
      unfold accept. rewrite (drafted_and_accepted V) by (auto; lra). ring.
  Qed.

  Lemma token_means f :
    mean (text_after V L q (emitted V L p (token V L p q))) f = mean (follow V q (S L) []) f.
  Proof.
    rewrite mean_text_after. unfold emitted. rewrite mean_bind.
    rewrite <- (Rmult_1_l (mean (follow V q (S L) []) f)), <- (token_from f L [] 1) by reflexivity.
    apply mean_ext. intros x. unfold token. rewrite mean_bind, mean_choose by apply stop_total. reflexivity.
  Qed.

  Theorem token_is_lossless : lossless V L q (text_after V L q (emitted V L p (token V L p q))).
  Proof. apply lossless_by_means; [exact Hq | exact token_means]. Qed.
End Token.
