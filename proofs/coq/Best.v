(** * Block verification is best with one draft

    No lossless rule that sees one draft, and accepts a prefix of it, reaches any text [v] more often. The idea: text
    through [v] that is not accepted through [v] goes on with the plain target, so losslessness leaves exactly
    D(v) q(c|v) for what is accepted through [v] and goes on with [c]; hence D(vc) <= D(v) q(c|v). And D <= P. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means Token Block Uniform BlockRace Emissions Rounds Accepted.
Import ListNotations.
Open Scope R_scope.

Lemma mean_le_outcomes {A} (S : A -> Prop) (d : law R A) f g :
  outcomes S d -> (forall a, S a -> f a <= g a) -> mean d f <= mean d g.
Proof.
  intros Hd H. enough (0 <= mean d (fun a => g a - f a)) as Hle by (rewrite mean_minus in Hle; lra).
  unfold mean. apply sum_nonneg. intros [w a] Hin. destruct (Hd w a Hin) as [Hw Ha]. cbn [fst snd]. reals.
  apply Rmult_le_pos; [exact Hw |]. specialize (H a Ha). lra.
Qed.

Section Best.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  Let P := text_prob p.
  Let Q := text_prob q.
  Let rho := rho p q.

  (** Any rule for one draft: the law of its emission, of which the accepted text is a prefix of the draft. *)
  Variable rule : list nat -> law R emission.
  Hypothesis Hrule : forall x, is_draft V L x ->
    is_law (fun u => In (fst u) (path [] x) /\ (snd u < V)%nat) (rule x).
  Hypothesis Hlossless : lossless V L q (text_after V L q (emitted V L p rule)).

  Let d : law R emission := emitted V L p rule.

  Lemma emission_fits : outcomes (fits V L) d.
  Proof.
    apply emitted_outcomes; [exact Hp |]. intros x [Hl Hx] w u Hin.
    destruct (proj1 (Hrule x (conj Hl Hx)) w u Hin) as (Hw & Hu & Hc). split; [exact Hw |].
    destruct (draft_prefixes V [] x (fst u)) as [Hlu Hvu]; [constructor | exact Hx | exact Hu |].
    split; [simpl in Hlu; lia | now constructor].
  Qed.

  (** ** Losslessness in terms of means *)

  Lemma follow_outcomes n v : vocabulary_text V v ->
    outcomes (fun y => vocabulary_text V y /\ length y = (length v + n)%nat) (follow V q n v).
  Proof.
    revert v. induction n as [| n IH]; intros v Hv; cbn [follow]; [apply outcomes_ret; split; [exact Hv | lia] |].
    apply (outcomes_bind (fun c => (c < V)%nat)).
    - apply outcomes_categorical. intros c Hc. split; [apply (next_nonneg V q Hq) | apply in_seq in Hc; lia].
    - intros c Hc w y Hin. destruct (IH (c :: v) ltac:(now constructor) w y Hin) as (Hw & Hy & Hl).
      split; [exact Hw |]. split; [exact Hy | simpl in Hl; lia].
  Qed.

  Definition whole_texts (e : law R text) : Prop :=
    outcomes (fun y => vocabulary_text V y /\ length y = S L) e.

  Lemma mean_by_texts e f : whole_texts e ->
    mean e f = sum (texts_of V (S L)) (fun y => probability e (text_eqb y) * f y).
  Proof.
    intros He. rewrite (sum_ext _ _ (fun y => mean e (fun x => (if text_eqb y x then 1 else 0) * f y))).
    2:{ intros y _. unfold probability. now rewrite mean_scale_r. }
    rewrite <- mean_sum. apply (mean_ext_outcomes _ _ _ _ He). intros x [Hx Hl].
    rewrite (sum_texts_single V (S L) _ x Hx Hl).
    - rewrite (proj2 (text_eqb_true x x)) by reflexivity. ring.
    - intros y _ Hy. rewrite (proj2 (text_eqb_false y x)) by congruence. ring.
  Qed.

  Lemma lossless_means f : mean d (completed V L q f) = mean (follow V q (S L) []) f.
  Proof.
    rewrite <- mean_text_after. rewrite !mean_by_texts.
    - apply sum_ext. intros y Hy. apply texts_of_spec in Hy as [Hy Hl]. f_equal.
      etransitivity; [exact (Hlossless y Hy Hl) |]. rewrite <- Hl. symmetry. now apply autoregression.
    - intros w y Hin. exact (follow_outcomes (S L) [] (Forall_nil _) w y Hin).
    - eapply outcomes_bind; [apply emission_fits |]. intros u [Hl Hu] w y Hin.
      destruct (follow_outcomes _ _ Hu w y Hin) as (Hw & Hy & Hly). split; [exact Hw |].
      split; [exact Hy | simpl in Hly; lia].
  Qed.

  (** ** What completions reach *)

  Definition indicator (z u : text) : R := if reaches z u then 1 else 0.

  Lemma reaches_kept z s w : (length z <= length w)%nat -> reaches z (s ++ w) = reaches z w.
  Proof.
    intros H. unfold reaches. rewrite app_length, skipn_app, skipn_all2 by lia. simpl. do 2 f_equal. lia.
  Qed.

  Lemma follow_reaching n w z : (length z <= length w)%nat ->
    mean (follow V q n w) (indicator z) = indicator z w.
  Proof.
    intros H. rewrite (mean_follow_ext V q Hq n w _ (fun _ => indicator z w)).
    - apply mean_constant, (follow_total V q Hq).
    - intros s _. unfold indicator. now rewrite reaches_kept.
  Qed.

  Lemma indicator_same z w : length w = length z -> indicator z w = if text_eqb z w then 1 else 0.
  Proof. intros H. unfold indicator, reaches. now rewrite H, Nat.sub_diag. Qed.

  (** Plain target text that is not yet at [v] goes on from [v] with the token [c] with probability q(c|v). *)
  Lemma plain_goes_on n w v c : In c (vocabulary V) -> (length w <= length v)%nat -> (length v < length w + n)%nat ->
    mean (follow V q n w) (indicator (c :: v)) = q v c * mean (follow V q n w) (indicator v).
  Proof.
    intros Hc Hw Hn. set (a := (length v - length w)%nat). set (b := (n - a - 1)%nat).
    replace n with (a + S b)%nat by lia. rewrite <- !(follow_split V q Hq), <- mean_scale.
    apply (mean_follow_ext V q Hq). intros s Hs.
    assert (Hl : length (s ++ w) = length v) by (rewrite app_length; lia). set (y := s ++ w) in *.
    rewrite (follow_reaching (S b) y v) by lia. rewrite (mean_follow_step V q Hq).
    rewrite (indicator_same v y Hl).
    rewrite (sum_single _ _ c); [| apply seq_NoDup | exact Hc |].
    - rewrite follow_reaching, indicator_same by (simpl; lia).
      destruct (text_eqb v y) eqn:E.
      + apply text_eqb_true in E. rewrite E, (proj2 (text_eqb_true (c :: v) (c :: v))) by reflexivity. ring.
      + apply text_eqb_false in E. rewrite (proj2 (text_eqb_false (c :: v) (c :: y))) by congruence. ring.
    - intros b' _ Hb. rewrite follow_reaching, indicator_same by (simpl; lia).
      rewrite (proj2 (text_eqb_false (c :: v) (b' :: y))) by congruence. ring.
  Qed.

  Lemma target_reaches v : vocabulary_text V v -> (length v <= S L)%nat ->
    mean (follow V q (S L) []) (indicator v) = Q v.
  Proof.
    intros Hv HL. replace (S L) with (length v + (S L - length v))%nat by lia.
    rewrite <- (follow_split V q Hq). unfold Q. rewrite <- (autoregression V q Hq v Hv).
    apply (mean_follow_ext V q Hq). intros s Hs. rewrite app_nil_r.
    rewrite follow_reaching by lia. now apply indicator_same.
  Qed.

  (** ** The two bounds *)

  Definition reached (v : text) : R := probability d (fun u => reaches v (fst u)).

  Lemma reached_means v : reached v = mean d (fun u => indicator v (fst u)).
  Proof. reflexivity. Qed.

  Lemma reached_step c v : In c (vocabulary V) -> vocabulary_text V v -> (length v < L)%nat ->
    reached (c :: v) <= reached v * q v c.
  Proof.
    intros Hc Hv HL.
    assert (Hcv : vocabulary_text V (c :: v)) by (constructor; [apply in_seq in Hc; lia | exact Hv]).
    pose proof (target_reaches v Hv ltac:(lia)) as HQv.
    pose proof (target_reaches (c :: v) Hcv ltac:(simpl; lia)) as HQc.
    rewrite <- lossless_means in HQv, HQc. change (Q (c :: v)) with (Q v * q v c) in HQc.
    enough (mean d (fun u =>
        q v c * (completed V L q (indicator v) u - indicator v (fst u)) + indicator (c :: v) (fst u))
      <= mean d (completed V L q (indicator (c :: v)))) as Hle.
    { rewrite mean_plus, mean_scale, mean_minus, HQv, HQc, <- !reached_means in Hle. lra. }
    apply (mean_le_outcomes _ _ _ _ emission_fits). intros u [Hu _]. unfold completed.
    destruct (Nat.le_gt_cases (length v) (length (fst u))) as [Hlen | Hlen].
    - (* what is accepted is as long as v: the text reaches v iff it does *)
      rewrite (follow_reaching _ _ v) by (simpl; lia). rewrite (follow_reaching _ _ (c :: v)) by (simpl; lia).
      unfold indicator. pose proof (reaches_kept v [snd u] (fst u) Hlen) as Hkept. simpl in Hkept. rewrite Hkept.
      destruct (reaches (c :: v) (fst u)) eqn:E.
      + apply reaches_iff in E as [t E].
        rewrite (proj2 (reaches_iff (c :: v) (snd u :: fst u))) by (exists (snd u :: t); simpl; now rewrite E). lra.
      + destruct (reaches (c :: v) (snd u :: fst u)); lra.
    - (* it is shorter: the text is plain from before v on *)
      rewrite (plain_goes_on _ _ v c Hc) by (simpl; lia).
      assert (Hnot : forall z, (length (fst u) < length z)%nat -> indicator z (fst u) = 0).
      { intros z Hz. unfold indicator. destruct (reaches z (fst u)) eqn:E; [| reflexivity].
        apply reaches_iff in E as [t E]. apply (f_equal (@length nat)) in E. rewrite app_length in E. lia. }
      rewrite !Hnot by (simpl; lia). lra.
  Qed.

  Lemma drafts_through n s v : vocabulary_text V (s ++ v) -> (length s <= n)%nat ->
    P v * mean (draft V p n v) (fun x => if existsb (text_eqb (s ++ v)) (path v x) then 1 else 0) = P (s ++ v).
  Proof.
    revert n v. induction s as [| c s IH] using rev_ind; intros n v Hs Hn.
    - simpl app. rewrite (mean_ext _ _ (fun _ => 1)); [rewrite (draft_total V p Hp); ring |].
      intros x. destruct x; simpl; rewrite (proj2 (text_eqb_true v v)) by reflexivity; reflexivity.
    - rewrite app_length in Hn. simpl in Hn. destruct n as [| n]; [lia |].
      rewrite <- app_assoc in Hs |- *. cbn [app] in Hs |- *.
      rewrite (mean_draft_step V p Hp). rewrite (sum_single _ _ c).
      + rewrite <- (IH n (c :: v)) by (auto; lia). change (P (c :: v)) with (P v * p v c).
        rewrite (mean_ext _ _ (fun x => if existsb (text_eqb (s ++ c :: v)) (path (c :: v) x) then 1 else 0)); [ring |].
        intros x. cbn [path existsb]. rewrite (proj2 (text_eqb_false _ v)); [reflexivity |].
        intros E. apply (f_equal (@length nat)) in E. rewrite app_length in E. simpl in E. lia.
      + apply seq_NoDup.
      + apply Forall_app in Hs as [_ Hs]. inversion Hs; subst. apply in_seq. lia.
      + intros b _ Hb. rewrite (mean_ext _ _ (fun _ => 0)), mean_zero; [ring |]. intros x.
        destruct (existsb _ _) eqn:E; [| reflexivity]. exfalso. apply existsb_exists in E as (u & Hu & E).
        apply text_eqb_true in E. subst u. cbn [path] in Hu. destruct Hu as [Hu | Hu].
        * apply (f_equal (@length nat)) in Hu. rewrite app_length in Hu. simpl in Hu. lia.
        * apply in_path in Hu as [t Hu]. apply same_end in Hu as [_ Hu]; [| reflexivity]. apply Hb. now inversion Hu.
  Qed.

  Lemma path_prefix u x v : In u (path [] x) -> reaches v u = true -> In v (path [] x).
  Proof.
    intros Hu Hv. apply reaches_iff in Hv as [t ->]. 
    enough (H : forall w, In (t ++ v) (path w x) -> (exists t', v = t' ++ w) -> In v (path w x)).
    { apply H; [exact Hu |]. exists v. now rewrite app_nil_r. }
    clear Hu. induction x as [| c x IH]; intros w Hin [t' ->].
    - destruct Hin as [E | []]. left. apply (f_equal (@length nat)) in E as El. rewrite !app_length in El.
      destruct t'; [reflexivity | simpl in El; lia].
    - destruct t' as [| b t' _] using rev_ind; [now left |]. right. destruct Hin as [E | Hin].
      + apply (f_equal (@length nat)) in E. rewrite !app_length in E. simpl in E. lia.
      + apply IH; [exact Hin |]. exists t'. rewrite <- app_assoc in Hin |- *. simpl in *.
        apply in_path in Hin as [t2 E]. rewrite app_assoc in E. apply same_end in E as [_ E]; [| reflexivity].
        now inversion E.
  Qed.

  Lemma reached_drafted v : vocabulary_text V v -> (length v <= L)%nat -> reached v <= P v.
  Proof.
    intros Hv HL. pose proof (drafts_through L v [] ltac:(now rewrite app_nil_r) HL) as H.
    rewrite app_nil_r in H. change (P []) with 1 in H. rewrite Rmult_1_l in H. rewrite <- H.
    unfold reached, probability, d, emitted. rewrite mean_bind.
    apply (mean_le_outcomes _ _ _ _ (outcomes_draft_from V p Hp L [])). intros x Hx.
    destruct (Hrule x Hx) as [Hout Htotal].
    set (k := if existsb (text_eqb v) (path [] x) then 1 else 0).
    rewrite <- (mean_constant (rule x) k Htotal).
    apply (mean_le_outcomes _ _ _ _ Hout). intros u [Hu _]. unfold k.
    destruct (reaches v (fst u)) eqn:E; reals; [| destruct (existsb _ _); lra].
    rewrite (proj2 (existsb_exists _ _)); [lra |]. exists v. split; [eapply path_prefix; eauto |].
    now apply text_eqb_true.
  Qed.

  Theorem block_is_best v : vocabulary_text V v -> (length v <= L)%nat -> reached v <= Q v * rho v.
  Proof.
    induction v as [| c v IH]; intros Hv HL.
    - pose proof (reached_drafted [] Hv HL) as H. unfold Q, rho, P in *. simpl in *. reals. lra.
    - inversion Hv as [| ? ? Hc Hv']; subst. simpl in HL. specialize (IH Hv' ltac:(lia)).
      pose proof (reached_step c v ltac:(apply in_seq; lia) Hv' ltac:(lia)) as Hstep.
      pose proof (reached_drafted (c :: v) Hv ltac:(simpl; lia)) as Hdraft.
      pose proof (next_nonneg V q Hq v c) as Hqc. pose proof (rho_bounds V p q Hp v) as Hrho. fold rho in Hrho.
      assert (Hle : reached (c :: v) <= Q (c :: v) * rho v).
      { change (Q (c :: v)) with (Q v * q v c).
        apply (Rle_trans _ (reached v * q v c)); [exact Hstep |].
        replace (Q v * q v c * rho v) with (Q v * rho v * q v c) by ring. now apply Rmult_le_compat_r. }
      change (rho (c :: v)) with (minimum (rho v) (capped_ratio p q (c :: v))).
      unfold capped_ratio. fold P Q. destruct (positive_spec (Q (c :: v))) as [[HQ ->] | [HQ ->]].
      + assert (Hdiv : Q (c :: v) * (P (c :: v) / Q (c :: v)) = P (c :: v)) by (field; lra).
        change (div (P (c :: v)) (Q (c :: v))) with (P (c :: v) / Q (c :: v)).
        destruct (minimum_spec (P (c :: v) / Q (c :: v)) 1) as [[? E] | [? E]]; reals; rewrite E;
          [destruct (minimum_spec (rho v) (P (c :: v) / Q (c :: v))) as [[? ->] | [? ->]]
          | destruct (minimum_spec (rho v) 1) as [[? ->] | [? ->]]]; nra.
      + pose proof (text_prob_nonneg V q Hq (c :: v)) as H0. fold Q in H0.
        assert (E0 : Q (c :: v) = 0) by lra. rewrite E0 in *. lra.
  Qed.

  Theorem block_accepts_most : expected_accepted d <= expected_accepted (emitted V L p (block V L p q)).
  Proof.
    rewrite (block_accepts V L p q Hp Hq), (expected_accepted_is_a_sum V L d emission_fits).
    enough (0 <= sum_over_nodes V L (fun v => Q v * rho v - reached v)) as Hle.
    { unfold sum_over_nodes in *. rewrite (sum_ext _ _ (fun n => sum (texts_of V n) (fun v => Q v * rho v)
        - sum (texts_of V n) reached)) in Hle by (intros; apply sum_minus).
      rewrite sum_minus in Hle. fold Q rho. unfold reached in Hle. lra. }
    apply sum_nonneg. intros n Hn. apply in_seq in Hn. apply sum_nonneg. intros v Hv.
    apply texts_of_spec in Hv as [Hv Hl]. pose proof (block_is_best v Hv ltac:(lia)). lra.
  Qed.
End Best.
