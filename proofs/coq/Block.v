(** * Block verification is lossless and reaches v with probability Q(v) rho(v)

    The idea: of the drafts that pass through [v], weighted by P(v), block verification stops at [v] and goes on with
    [c] in a share Q(vc)(rho(v) - rho(vc)), and after a whole draft in a share Q(vc) rho(v) ([stops_inside] and
    [stops_at_the_end]). So what passes through [v] and follows the target below it is the part (0, rho(v)] of Q(v):
    the exits cut the interval of every text [y] into (rho(y_1..i+1), rho(y_1..i)], which add up to (0, 1]. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means Token.
Import ListNotations.
Open Scope R_scope.

(** ** Texts *)

Lemma same_end (s s' v v' : text) : length v = length v' -> s ++ v = s' ++ v' -> s = s' /\ v = v'.
Proof.
  intros Hl. revert s'. induction s as [| a s IH]; intros [| b s'] E; simpl in E; auto.
  - subst v. simpl in Hl. rewrite app_length in Hl. lia.
  - subst v'. simpl in Hl. rewrite app_length in Hl. lia.
  - inversion E as [[Ha E']]. apply IH in E' as [-> ->]. auto.
Qed.

Lemma reaches_iff z u : reaches z u = true <-> exists t, u = t ++ z.
Proof.
  unfold reaches. rewrite text_eqb_true. split.
  - intros E. exists (firstn (length u - length z) u).
    rewrite <- (firstn_skipn (length u - length z) u) at 1. now rewrite E.
  - intros [t ->]. rewrite app_length. replace (length t + length z - length z)%nat with (length t) by lia.
    rewrite skipn_app, skipn_all, Nat.sub_diag. reflexivity.
Qed.

Lemma in_path u v x : In u (path v x) -> exists t, u = t ++ v.
Proof.
  revert v. induction x as [| c x IH]; intros v [<- | H]; try (now exists []).
  apply IH in H as [t ->]. exists (t ++ [c]). now rewrite <- app_assoc.
Qed.

(** All texts of [n] tokens. *)
Fixpoint texts_of (V n : nat) : list text :=
  match n with
  | O => [[]]
  | S n' => flat_map (fun v => map (fun c => c :: v) (vocabulary V)) (texts_of V n')
  end.

Lemma in_texts_of V v : vocabulary_text V v -> In v (texts_of V (length v)).
Proof.
  induction 1 as [| c v Hc Hv IH]; [now left |]. simpl. apply in_flat_map. exists v. split; [exact IH |].
  apply (in_map (fun c => c :: v)), in_seq. lia.
Qed.

Section Block.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  Let P := text_prob p.
  Let Q := text_prob q.
  Let W := running_weight p q.
  Let A := left_over V p q.
  Let rho := rho p q.

  (** ** Weights and ratios *)

  Lemma weight_bounds v : 0 <= W v <= 1.
  Proof.
    unfold W. induction v as [| c v IH]; [simpl; reals; lra |]. cbn [running_weight].
    set (x := ratio _ _). assert (Hx : 0 <= x).
    { unfold x. destruct (ratio_spec (running_weight p q v * q v c) (p v c)) as [[H E] | [H E]];
        reals; rewrite E; [| lra].
      pose proof (next_nonneg V p Hp v c) as Hc. apply Rlt_le in H.
      unfold Rdiv. apply Rmult_le_pos; [exact H |].
      (* where p is 0 no draft passes, and 1/0 = 0 serves as well as any number *)
      destruct (Req_dec (p v c) 0) as [-> | H0]; [rewrite Rinv_0; lra | left; apply Rinv_0_lt_compat; lra]. }
    destruct (minimum_spec 1 x) as [[H E] | [H E]]; reals; rewrite E; lra.
  Qed.

  Lemma left_over_nonneg v : 0 <= A v.
  Proof. apply sum_nonneg. intros. apply residual_nonneg. Qed.

  Lemma rho_bounds v : 0 <= rho v <= 1.
  Proof.
    unfold rho. induction v as [| c v IH]; [simpl; reals; lra |]. cbn [Rules.rho].
    assert (Hr : 0 <= capped_ratio p q (c :: v)).
    { unfold capped_ratio.
      destruct (positive_spec (text_prob q (c :: v))) as [[H E] | [H E]]; reals; rewrite E; [| lra].
      assert (0 <= text_prob p (c :: v) / text_prob q (c :: v)).
      { apply Rmult_le_pos; [apply (text_prob_nonneg V); exact Hp | left; now apply Rinv_0_lt_compat]. }
      destruct (minimum_spec (text_prob p (c :: v) / text_prob q (c :: v)) 1) as [[H' E'] | [H' E']];
        reals; rewrite E'; lra. }
    destruct (minimum_spec (Rules.rho p q v) (capped_ratio p q (c :: v))) as [[H E] | [H E]]; rewrite E; lra.
  Qed.

  (** Given P W = Q rho at [v], the share of P(v) that is left over at [v] for the token [c]. *)
  Lemma exit_share_from v c : P v * W v = Q v * rho v ->
    P v * residual p q (W v) v c = Q (c :: v) * (rho v - rho (c :: v)).
  Proof.
    intros H. pose proof (rho_bounds v) as Hrho.
    pose proof (text_prob_nonneg V p Hp v) as HP. fold P in HP.
    pose proof (text_prob_nonneg V q Hq (c :: v)) as HQc. fold Q in HQc.
    assert (EQ : Q (c :: v) = Q v * q v c) by reflexivity.
    assert (EP : P (c :: v) = P v * p v c) by reflexivity.
    assert (EW : P v * (W v * q v c) = Q (c :: v) * rho v) by (rewrite <- Rmult_assoc, H, EQ; ring).
    assert (Erho : rho (c :: v) = minimum (rho v) (capped_ratio p q (c :: v))) by reflexivity.
    unfold capped_ratio in Erho. fold P Q in Erho.
    destruct (positive_spec (Q (c :: v))) as [[HQ E] | [HQ E]]; rewrite E in Erho.
    - assert (Hdiv : Q (c :: v) * (P (c :: v) / Q (c :: v)) = P (c :: v)) by (field; lra).
      set (x := P (c :: v) / Q (c :: v)) in *.
      change (div (P (c :: v)) (Q (c :: v))) with x in Erho.
      destruct (residual_spec p q (W v) v c) as [[-> Hr] | [-> Hr]].
      + (* what is left is Q(vc) rho(v) - P(vc), and rho(vc) = P(vc)/Q(vc) *)
        assert (Hx : x <= rho v).
        { apply (Rmult_le_reg_l (Q (c :: v))); [exact HQ |]. rewrite Hdiv, <- EW, EP.
          now apply Rmult_le_compat_l. }
        assert (Ex : rho (c :: v) = x).
        { rewrite Erho. destruct (minimum_spec x 1) as [[? E1] | [? E1]]; reals; rewrite E1; [| lra].
          destruct (minimum_spec (rho v) x) as [[? ->] | [? ->]]; lra. }
        rewrite Ex. nra.
      + (* nothing is left, and rho(vc) = rho(v) *)
        assert (Hx : rho v <= x).
        { apply (Rmult_le_reg_l (Q (c :: v))); [exact HQ |]. rewrite Hdiv, <- EW, EP.
          apply Rmult_le_compat_l; lra. }
        assert (Ex : rho (c :: v) = rho v).
        { rewrite Erho. destruct (minimum_spec x 1) as [[? E1] | [? E1]]; reals; rewrite E1.
          - destruct (minimum_spec (rho v) x) as [[? ->] | [? ->]]; lra.
          - destruct (minimum_spec (rho v) 1) as [[? ->] | [? ->]]; lra. }
        rewrite Ex. ring.
    - (* the target never gets to vc: neither does the draft with weight to spare *)
      assert (E0 : Q (c :: v) = 0) by lra. rewrite E0 in *. rewrite Rmult_0_l in *.
      destruct (residual_spec p q (W v) v c) as [[-> Hr] | [-> Hr]]; [| ring].
      pose proof (next_nonneg V p Hp v c).
      assert (P v * p v c <= P v * (W v * q v c)) by now apply Rmult_le_compat_l.
      assert (0 <= P v * p v c) by now apply Rmult_le_pos. nra.
  Qed.

  (** The identity of block verification. *)
  Theorem prob_weight v : P v * W v = Q v * rho v.
  Proof.
    induction v as [| c v IH]; [unfold P, Q, W, rho; simpl; reals; ring |].
    pose proof (exit_share_from v c IH) as Hexit. pose proof (proj1 (weight_bounds v)) as Hw.
    pose proof (drafted_and_accepted V p q Hp Hq (W v) v c Hw) as Hacc.
    assert (EW : W (c :: v) = minimum 1 (ratio (W v * q v c) (p v c))) by reflexivity. rewrite EW.
    assert (EQ : Q (c :: v) = Q v * q v c) by reflexivity.
    assert (EP : P (c :: v) = P v * p v c) by reflexivity.
    rewrite EP, Rmult_assoc, Hacc, Rmult_minus_distr_l, Hexit, EQ, <- Rmult_assoc, IH. ring.
  Qed.

  Lemma exit_share v c : P v * residual p q (W v) v c = Q (c :: v) * (rho v - rho (c :: v)).
  Proof. apply exit_share_from, prob_weight. Qed.

  (** The code finds rho(vc) for a correction [c] from rho(v), W(v) and the two probabilities of [c]. *)
  Theorem low_as_coded v c : 0 < P v -> 0 < residual p q (W v) v c ->
    rho v * minimum 1 (ratio (p v c) (W v * q v c)) = rho (c :: v).
  Proof.
    intros HP Hres. pose proof (exit_share v c) as Hexit. pose proof (prob_weight v) as Hpw.
    pose proof (next_nonneg V p Hp v c) as Hpc. pose proof (rho_bounds v) as Hrho.
    destruct (residual_spec p q (W v) v c) as [[E Hle] | [E _]]; rewrite E in *; [| lra].
    set (D := W v * q v c) in *.
    assert (HD : P v * D = Q (c :: v) * rho v).
    { unfold D. rewrite <- Rmult_assoc, Hpw. change (Q (c :: v)) with (Q v * q v c). ring. }
    assert (Hpos : 0 < Q (c :: v) * rho v) by (rewrite <- HD; apply Rmult_lt_0_compat; lra).
    assert (HQ : Q (c :: v) <> 0) by (intros H0; rewrite H0 in Hpos; lra).
    assert (Hratio : ratio (p v c) D = p v c / D).
    { destruct (ratio_spec (p v c) D) as [[_ ->] | [H ->]]; [reflexivity |].
      replace (p v c) with 0 by lra. field. lra. }
    assert (Hsmall : p v c / D < 1).
    { apply (Rmult_lt_reg_r D); [lra |]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    rewrite Hratio. destruct (minimum_spec 1 (p v c / D)) as [[H _] | [_ ->]]; [lra |].
    apply (Rmult_eq_reg_l (Q (c :: v))); [| exact HQ].
    apply (Rmult_eq_reg_r D); [| lra].
    replace (Q (c :: v) * (rho v * (p v c / D)) * D) with (Q (c :: v) * rho v * p v c) by (field; lra).
    replace (Q (c :: v) * rho (c :: v)) with (P v * p v c) by lra. rewrite <- HD. ring.
  Qed.

  (** ** Where a draft through [v] stops *)

  (** The mean of [g] over the stopping points at [v] and below, when [n] tokens are drafted from [v] on. *)
  Definition stops_from (n : nat) (v : text) (g : text -> R) : R :=
    mean (draft V p n v) (fun x =>
      sum (combine (stopping_law (block_success V p q v x)) (path v x)) (fun wa => fst wa * g (snd wa))).

  Definition all_fail (coins : list R) : R := product (map (fun h => 1 - h) coins).

  Lemma stopping_total v x :
    sum (combine (stopping_law (block_success V p q v x)) (path v x)) fst = 1 - all_fail (block_success V p q v x).
  Proof.
    unfold all_fail. revert v. induction x as [| c x IH]; intros v;
      cbn [block_success path stopping_law combine map]; rewrite sum_cons, product_cons.
    - rewrite sum_nil. unfold product. simpl. reals. ring.
    - rewrite IH. cbn [fst]. reals. ring.
  Qed.

  Lemma next_weights v : sum (vocabulary V) (fun c => p v c * W (c :: v)) = W v - A v.
  Proof.
    rewrite (sum_ext _ _ (fun c => W v * q v c - residual p q (W v) v c)).
    - rewrite sum_minus, sum_scale, (next_total V q Hq). unfold A, left_over. fold W. ring.
    - intros c _. apply (drafted_and_accepted V p q Hp Hq (W v) v c), weight_bounds.
  Qed.

  (** The coin at [v], seen by the drafts for which all longer prefixes fail, lets through what is left over. *)
  Lemma success_share v : success V p q v * (1 - (W v - A v)) = A v.
  Proof.
    unfold success. fold A W. pose proof (weight_bounds v). pose proof (left_over_nonneg v).
    destruct (leb one (W v)) eqn:E.
    - apply leb_true in E. reals. lra.
    - apply leb_false in E. reals. field. lra.
  Qed.

  Lemma mean_all_fail n v : mean (draft V p n v) (fun x => all_fail (block_success V p q v x)) = 1 - W v.
  Proof.
    revert v. induction n as [| n IH]; intros v.
    - cbn [draft]. rewrite mean_ret. unfold all_fail. simpl. rewrite product_cons. unfold product. simpl.
      fold W. reals. ring.
    - rewrite (mean_draft_step V p Hp).
      rewrite (sum_ext _ _ (fun c => (1 - success V p q v) * (p v c - p v c * W (c :: v)))).
      + rewrite sum_scale, sum_minus, (next_total V p Hp), next_weights.
        pose proof (success_share v). lra.
      + intros c _. unfold all_fail. cbn [block_success map].
        rewrite (mean_ext _ _ (fun x => (1 - success V p q v) * all_fail (block_success V p q (c :: v) x)))
          by (intros; apply product_cons).
        rewrite mean_scale, IH. ring.
  Qed.

  Lemma stops_from_end v g : stops_from 0 v g = W v * g v.
  Proof.
    unfold stops_from. cbn [draft]. rewrite mean_ret. simpl. rewrite sum_cons, sum_nil. unfold product. simpl.
    fold W. reals. ring.
  Qed.

  Lemma stops_from_step n v g :
    stops_from (S n) v g = A v * g v + sum (vocabulary V) (fun c => p v c * stops_from n (c :: v) g).
  Proof.
    unfold stops_from. rewrite (mean_draft_step V p Hp).
    rewrite (sum_ext _ _ (fun c =>
      success V p q v * g v * (p v c - p v c * W (c :: v)) + p v c * stops_from n (c :: v) g)).
    - rewrite sum_plus, sum_scale, sum_minus, (next_total V p Hp), next_weights.
      replace (success V p q v * g v * _) with (success V p q v * (1 - (W v - A v)) * g v) by ring.
      now rewrite success_share.
    - intros c _. cbn [block_success path stopping_law combine].
      rewrite (mean_ext _ _ (fun x => success V p q v * g v * all_fail (block_success V p q (c :: v) x)
        + sum (combine (stopping_law (block_success V p q (c :: v) x)) (path (c :: v) x))
              (fun wa => fst wa * g (snd wa)))).
      + rewrite mean_plus, mean_scale, mean_all_fail. unfold stops_from. ring.
      + intros x. rewrite sum_cons. unfold all_fail. cbn [fst snd]. reals. ring.
  Qed.

  (** ** The mean of any function [G] of the emission *)

  Definition emissions_from (n : nat) (v : text) (G : emission -> R) : R :=
    stops_from n v (fun u => mean (emit V L p q (W u) u) G).

  Lemma mean_block G : mean (emitted V L p (block V L p q)) G = emissions_from L [] G.
  Proof.
    unfold emitted, emissions_from, stops_from. rewrite mean_bind. apply mean_ext. intros x.
    unfold block. rewrite mean_bind, mean_choose; [reflexivity |].
    rewrite stopping_total. enough (all_fail (block_success V p q [] x) = 0) as -> by ring.
    (* the coin of the empty prefix always succeeds *)
    unfold all_fail. destruct x as [| c x]; cbn [block_success map]; rewrite product_cons.
    - unfold product. simpl. reals. ring.
    - replace (success V p q []) with 1; [ring |]. unfold success. cbn [running_weight].
      rewrite (proj2 (leb_true one one)) by (reals; lra). reflexivity.
  Qed.

  Lemma stops_inside n (v : text) G : (length v + S n = L)%nat ->
    P v * emissions_from (S n) v G
    = sum (vocabulary V) (fun c => Q (c :: v) * (rho v - rho (c :: v)) * G (v, c))
      + sum (vocabulary V) (fun c => P (c :: v) * emissions_from n (c :: v) G).
  Proof.
    intros Hn. unfold emissions_from. rewrite stops_from_step. unfold A, left_over. fold W.
    rewrite (mean_emit_inner V L p q) by lia. rewrite Rmult_plus_distr_l, <- !sum_scale. f_equal.
    - apply sum_ext. intros c _. rewrite <- exit_share. ring.
    - apply sum_ext. intros c _. change (P (c :: v)) with (P v * p v c). ring.
  Qed.

  Lemma stops_at_the_end (v : text) G : length v = L ->
    P v * emissions_from 0 v G = sum (vocabulary V) (fun c => Q (c :: v) * rho v * G (v, c)).
  Proof.
    intros Hn. unfold emissions_from. rewrite stops_from_end, <- Rmult_assoc, prob_weight.
    rewrite (mean_emit_whole V L p q Hq) by exact Hn. rewrite <- sum_scale. apply sum_ext. intros c _.
    change (Q (c :: v)) with (Q v * q v c). ring.
  Qed.

  (** ** Interval by interval

      [B v a b] is the value of the part (a, b] of the target's text through [v]. If it is additive where the exits
      cut, if it is the target's mean over the next token, and if [G] gives every exit the mean over its own part,
      then the drafts through [v] bring the part (0, rho(v)]. *)

  Definition is_value (inside : text -> Prop) (G : emission -> R) (B : text -> R -> R -> R) : Prop :=
    forall v, inside v -> (length v <= L)%nat ->
      B v 0 (rho v) = sum (vocabulary V) (fun c => q v c * B (c :: v) 0 (rho v))
      /\ forall c, In c (vocabulary V) ->
        (high p q (v, c) - low L p q (v, c)) * G (v, c) = B (c :: v) (low L p q (v, c)) (high p q (v, c))
        /\ ((length v < L)%nat ->
            inside (c :: v) /\ B (c :: v) 0 (rho (c :: v)) + B (c :: v) (rho (c :: v)) (rho v) = B (c :: v) 0 (rho v)).

  Lemma value_below inside G B : is_value inside G B -> forall n v, inside v -> (length v + n = L)%nat ->
    P v * emissions_from n v G = Q v * B v 0 (rho v).
  Proof.
    intros HB. induction n as [| n IH]; intros v Hv Hn; destruct (HB v Hv) as [Hmean Hc]; try lia;
      rewrite Hmean, <- sum_scale.
    - rewrite stops_at_the_end by lia. apply sum_ext. intros c Hin. destruct (Hc c Hin) as [Hexit _].
      unfold high, low in Hexit. cbn [fst snd] in Hexit. rewrite (proj2 (Nat.eqb_eq _ _)) in Hexit by lia.
      fold rho in Hexit. reals. change (Q (c :: v)) with (Q v * q v c). rewrite <- Hexit. ring.
    - rewrite stops_inside by exact Hn. rewrite <- sum_plus. apply sum_ext. intros c Hin.
      destruct (Hc c Hin) as [Hexit Hadd]. destruct Hadd as [Hin' Hadd]; [lia |].
      unfold high, low in Hexit. cbn [fst snd] in Hexit. rewrite (proj2 (Nat.eqb_neq _ _)) in Hexit by lia.
      fold rho in Hexit. rewrite IH by (simpl; auto; lia).
      change (Q (c :: v)) with (Q v * q v c). rewrite <- Hadd, <- Hexit. ring.
  Qed.

  (** The same, counting only the emissions whose accepted text reaches [z]: the part (0, rho(z)] of Q(z). *)

  Lemma emissions_from_ext n v G G' :
    (forall t c, G (t ++ v, c) = G' (t ++ v, c)) -> emissions_from n v G = emissions_from n v G'.
  Proof.
    intros H. unfold emissions_from, stops_from. apply mean_ext. intros x. apply sum_ext. intros [w u] Hin.
    apply in_combine_r, in_path in Hin as [t ->]. cbn [fst snd]. f_equal.
    unfold emit. rewrite !mean_bind. apply mean_ext. intros c. rewrite !mean_ret. apply H.
  Qed.

  Lemma emissions_from_none n v : emissions_from n v (fun _ => 0) = 0.
  Proof.
    unfold emissions_from, stops_from.
    rewrite (mean_ext _ _ (fun _ => 0)); [apply mean_zero |]. intros x.
    rewrite (sum_ext _ _ (fun _ => 0)); [apply sum_zero |]. intros [w u] _. rewrite mean_zero. reals. ring.
  Qed.

  Definition counted (z : text) (G : emission -> R) (u : emission) : R := if reaches z (fst u) then G u else 0.

  Lemma value_reaching z G B : vocabulary_text V z -> (length z <= L)%nat ->
    is_value (fun v => vocabulary_text V v /\ reaches z v = true) G B ->
    forall n s v, z = s ++ v -> (length v + n = L)%nat ->
    P v * emissions_from n v (counted z G) = Q z * B z 0 (rho z).
  Proof.
    intros Hz HzL HB. induction n as [| n IH]; intros s v Es Hn;
      destruct s as [| c s _] using rev_ind; try (rewrite Es, !app_length in HzL; simpl in HzL; lia).
    1, 2: simpl in Es; subst v; rewrite (emissions_from_ext _ z _ G);
      [apply (value_below _ _ _ HB); [split; [exact Hz | apply reaches_iff; now exists []] | exact Hn] |];
      intros t c; unfold counted; cbn [fst]; rewrite (proj2 (reaches_iff _ _)); [reflexivity | now exists t].
    (* above z: nothing that stops here counts, and one token leads on to z *)
    rewrite stops_inside by exact Hn. rewrite <- app_assoc in Es. simpl in Es.
    rewrite (sum_ext _ _ (fun _ => 0)), sum_zero.
    - rewrite (sum_single _ _ c).
      + rewrite (IH s (c :: v)) by (simpl; auto; lia). ring.
      + apply seq_NoDup.
      + apply in_seq. rewrite Es in Hz. apply Forall_app in Hz as [_ Hz]. inversion Hz; subst. lia.
      + intros b _ Hb. rewrite (emissions_from_ext _ _ _ (fun _ => 0)), emissions_from_none; [ring |].
        intros t d. unfold counted. cbn [fst]. destruct (reaches z (t ++ b :: v)) eqn:E; [| reflexivity].
        apply reaches_iff in E as [t' E]. rewrite Es, app_assoc in E. exfalso. apply Hb.
        apply same_end in E as [_ E]; [| reflexivity]. now inversion E.
    - intros b _. unfold counted. cbn [fst]. destruct (reaches z v) eqn:E; [| ring].
      apply reaches_iff in E as [t E]. apply (f_equal (@length nat)) in E. rewrite Es, !app_length in E.
      simpl in E. lia.
  Qed.
End Block.

Section Theorems.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  Lemma text_value f : is_value V L p q (fun _ => True) (completed V L q f)
    (fun v a b => (b - a) * mean (follow V q (S L - length v) v) f).
  Proof.
    intros v _ HL. split.
    - replace (S L - length v)%nat with (S (L - length v)) by lia.
      rewrite (mean_follow_step V q Hq), <- sum_scale. apply sum_ext. intros c _. simpl. ring.
    - intros c _. split; [reflexivity | intros _; split; [exact I | ring]].
  Qed.

  Lemma block_means f :
    mean (text_after V L q (emitted V L p (block V L p q))) f = mean (follow V q (S L) []) f.
  Proof.
    rewrite mean_text_after, mean_block.
    pose proof (value_below V L p q Hp Hq _ _ _ (text_value f) L [] I eq_refl) as H.
    simpl in H. reals. rewrite Rminus_0_r, !Rmult_1_l in H. exact H.
  Qed.

  Theorem block_is_lossless : lossless V L q (text_after V L q (emitted V L p (block V L p q))).
  Proof. apply lossless_by_means; [exact Hq | exact block_means]. Qed.

  Theorem block_reach v : vocabulary_text V v -> (length v <= L)%nat ->
    probability (emitted V L p (block V L p q)) (fun u => reaches v (fst u)) = text_prob q v * rho p q v.
  Proof.
    intros Hv HL. unfold probability. rewrite mean_block.
    assert (HB : is_value V L p q (fun u => vocabulary_text V u /\ reaches v u = true)
      (fun _ => 1) (fun _ a b => b - a)).
    { intros u [Hu Hr] HuL. split.
      - rewrite sum_scale_r, (next_total V q Hq). ring.
      - intros c Hc. split; [ring |]. intros _. split; [split |]; [| | ring].
        + constructor; [apply in_seq in Hc; lia | exact Hu].
        + apply reaches_iff in Hr as [t ->]. apply reaches_iff. now exists (c :: t). }
    pose proof (value_reaching V L p q Hp Hq v _ _ Hv HL HB L v [] (eq_sym (app_nil_r v)) eq_refl) as H.
    simpl in H. reals. rewrite Rmult_1_l, Rminus_0_r in H. exact H.
  Qed.
End Theorems.
